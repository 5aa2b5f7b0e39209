"""Additive models: a shape function for each number, a value for each category, nothing between columns."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from r2et.columns import Columns, check_rows_exist
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.models.architecture import MODELS, check_layers, check_shape, confirmed
from r2et.numerics.checks import check_inputs
from r2et.numerics.values import check_count, check_kind, check_positive, is_whole, quoted

#: steepness of a unit by its number of knots: as wide as a column's scale, neither flat nor a step
FLATTEST, STEEPEST = 0.3, 1.7


@MODELS.register("additive")
class Additive(nn.Module):
    """s(x) = c + v . x + sum over numbers i and units u of a_iu softplus(w_iu x_i + b_iu): (N, n) -> (N, classes).

    Two classes have the logits (0, s); more have one such sum each. What is no number (flags, one-hot groups) has
    the linear term alone, which is a table of values; those of a group are centred, so that nothing is left to
    the sum of the group, which is 1 in every row. The gradient of s by a column depends on this column alone:
    `r2et.certify` is exact for it.

    Args:
        features: inputs.
        classes: logits.
        numeric: features that have a shape function; None = all.
        groups: one-hot groups of features.
        units: of each shape function.
        beta: sharpness of their softplus.

    >>> model = Additive(4, 2, numeric=[0, 1], groups=[[2, 3]], units=8)
    >>> model(torch.zeros(5, 4)).shape
    torch.Size([5, 2])
    >>> model.architecture["groups"]
    [[2, 3]]
    """

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        numeric: Sequence[int] | None = None,
        groups: Sequence[Sequence[int]] = (),
        units: int = 16,
        beta: float = 5.0,
    ) -> None:
        super().__init__()
        for name, count in (("features", features), ("classes", classes), ("units", units)):
            check_count(name, count)
        check_positive("beta", beta)
        outputs = 1 if classes == 2 else classes
        check_layers("an additive model", features, units * outputs)
        self.features, self.classes = features, classes
        chosen = range(features) if numeric is None else _features("numeric", numeric, features)
        self.numeric = sorted(chosen)
        # a domain knows what groups are
        self.groups = [_features("groups", group, features) for group in Domain(groups=groups).groups]
        self._group_of = _numbers_of_groups(self.groups, features)
        _refuse_both(self.numeric, self.groups)
        self.steepness = nn.Parameter(_signed(torch.empty(len(self.numeric), units).uniform_(FLATTEST, STEEPEST)))
        self.shift = nn.Parameter(-self.steepness.detach() * torch.randn(len(self.numeric), units))
        self.activation = nn.Softplus(float(beta))
        self.heights = nn.Linear(max(1, len(self.numeric) * units), outputs, bias=False)
        self.weight = nn.Parameter(torch.empty(outputs, features).uniform_(-1, 1) / features**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))
        # logits (0, s) of two classes
        self.logits = nn.ZeroPad1d((1, 0)) if classes == 2 else nn.Identity()

    @classmethod
    def from_rows(
        cls,
        x: Tensor,
        classes: int,
        *,
        columns: Columns | None = None,
        units: int = 16,
        beta: float = 5.0,
        seed: int = 0,
    ) -> "Additive":
        """A model to be trained on rows, whose units bend where the rows are.

        Every second unit has its knot (where it bends) at a quantile of its number, the others at values that
        occur, equally spaced among the distinct ones: quantiles alone leave out what is rare.

        Args:
            x: (N, n).
            classes: logits.
            columns: of the table; None = as the rows show them, see `Domain.from_rows`.
            units: of each shape function.
            beta: sharpness of their softplus.
            seed: of the initial weights.

        >>> rows = torch.tensor([[0.1, 1.0, 0.0], [2.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
        >>> Additive.from_rows(rows, 2).numeric
        [0]
        """
        check_inputs(x)
        columns = Columns.from_rows(x, Domain.from_rows(x)) if columns is None else columns
        check_kind("columns", columns, Columns, "r2et.Columns(...) or the columns of r2et.tables.Rows")
        check_rows_exist(x, columns)
        numeric = columns.continuous.nonzero().flatten().tolist()
        groups = [
            list(features)
            for features, kind in zip(columns.features, columns.kinds, strict=True)
            if kind == "category" and len(features) > 1
        ]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = cls(columns.n, classes, numeric=numeric, groups=groups, units=units, beta=beta)
        model.place_knots(x)
        return model.to(x.device)

    def place_knots(self, x: Tensor) -> None:
        """Let the units bend where rows x (N, n) are, as in `from_rows`: before training."""
        units = self.steepness.shape[1]
        knots = [_knots(x[:, feature].detach().double().cpu(), units) for feature in self.numeric]
        if knots:
            with torch.no_grad():
                self.shift.copy_(-self.steepness * torch.stack(knots).to(self.steepness))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, classes)."""
        check_shape(x, (self.features,), "this additive model")
        s = F.linear(x, self.centred(), self.bias)
        if self.numeric:
            numbers = x[:, self.numeric].unsqueeze(2)
            s = s + self.heights(self.activation(numbers * self.steepness + self.shift).flatten(1))
        logits: Tensor = self.logits(s)
        return logits

    def parts(self, x: Tensor) -> Tensor:
        """What each feature adds to each logit, (N, classes, n) of rows (N, n): the rest of a logit is a constant.

        >>> model, x = Additive(3, 2), torch.randn(4, 3)
        >>> moved = model.parts(x) - model.parts(torch.zeros(1, 3))
        >>> bool(torch.allclose(moved.sum(2), model(x) - model(torch.zeros(1, 3)), atol=1e-5))
        True
        """
        check_shape(x, (self.features,), "this additive model")
        parts = x[:, None] * self.centred()
        if self.numeric:
            units = self.activation(x[:, self.numeric].unsqueeze(2) * self.steepness + self.shift)
            heights = self.heights.weight.reshape(-1, *self.steepness.shape)
            shapes = torch.stack([(units * own).sum(2) for own in heights], 1)
            parts = parts.index_add(2, torch.tensor(self.numeric, device=x.device), shapes)
        # logits (0, s) of two classes
        return F.pad(parts, (0, 0, 1, 0)) if self.classes == 2 else parts

    def centred(self) -> Tensor:
        """The linear terms (outputs, features), with a mean of 0 in every group."""
        if not self.groups:
            return self.weight
        means = [self.weight[:, group].mean(1) for group in self.groups]
        of_groups = torch.stack([torch.zeros_like(means[0]), *means], 1)
        return self.weight - of_groups[:, self._group_of]

    def shape(self, feature: int, grid: Tensor) -> tuple[Tensor, Tensor]:
        """What a feature adds to s at each value of a grid (G,), and its slope there.

        Args:
            feature: its number.
            grid: values of the feature.

        Returns:
            Values and slopes, each (G,) for two classes, else (G, classes). The values of a model differ from
            those that another one of the same function has by a constant: only differences mean something.

        >>> values, slopes = Additive(3, 2).shape(1, torch.linspace(-2.0, 2.0, 9))
        >>> values.shape, slopes.shape
        (torch.Size([9]), torch.Size([9]))
        """
        (feature,) = _features("feature", [feature], self.features)
        check_kind("grid", grid, Tensor, "torch.linspace(-2.0, 2.0, 100)")
        if grid.ndim != 1 or not grid.is_floating_point():
            raise InputError(f"grid must be a list of values (G,), got a tensor of shape {tuple(grid.shape)}")
        linear = self.centred()[:, feature]
        values, slopes = grid[:, None] * linear, linear.expand(len(grid), -1)
        if feature in self.numeric:
            place = self.numeric.index(feature)
            heights = self.heights.weight.reshape(len(linear), *self.steepness.shape)[:, place]
            z = grid[:, None] * self.steepness[place] + self.shift[place]
            values = values + F.linear(self.activation(z), heights)
            slopes = slopes + F.linear(torch.sigmoid(self.activation.beta * z), heights * self.steepness[place])
        return (values.squeeze(1), slopes.squeeze(1)) if self.classes == 2 else (values, slopes)

    @property
    def architecture(self) -> dict[str, Any]:
        """What `r2et.models.create` needs to build this model again."""
        settings = {
            "features": self.features,
            "classes": self.classes,
            "numeric": list(self.numeric),
            "groups": [list(group) for group in self.groups],
            "units": self.steepness.shape[1],
            "beta": float(getattr(self.activation, "beta", 1.0)),
        }
        return confirmed(self, Additive, settings)


def _features(name: str, numbers: Sequence[int], n: int) -> list[int]:
    listed = isinstance(numbers, list | tuple | range)
    if not listed or not all(is_whole(i) and 0 <= i < n for i in numbers) or len(set(numbers)) < len(numbers):
        raise InputError(f"{name} must be different features of 0..{n - 1}, got {name}={quoted(numbers)}")
    return [int(i) for i in numbers]


def _refuse_both(numeric: Sequence[int], groups: Sequence[Sequence[int]]) -> None:
    both = [i for group in groups for i in group if i in numeric]
    if both:
        raise InputError(
            f"feature {both[0]} is in numeric and in groups={quoted(groups)}: a category has no shape function"
        )


def _numbers_of_groups(groups: Sequence[Sequence[int]], n: int) -> list[int]:
    """Of each feature the number of its group, from 1 on; 0 = it is in none."""
    numbers = [0] * n
    for number, group in enumerate(groups, start=1):
        for i in group:
            numbers[i] = number
    return numbers


def _signed(values: Tensor) -> Tensor:
    return torch.where(torch.rand_like(values) < 0.5, -values, values)


def _knots(values: Tensor, units: int) -> Tensor:
    """Where the units of one number bend (units,): alternately at quantiles and at values that occur."""
    shares = (torch.arange(units, dtype=torch.float64) + 0.5) / units
    distinct = values.unique()
    places = (shares * len(distinct)).long().clamp_max(len(distinct) - 1)
    at_quantiles = torch.arange(units) % 2 == 0
    # of a sample, because torch's quantiles are for at most 16 million values
    sample = values[:: 1 + len(values) // 10**6]
    return torch.where(at_quantiles, sample.quantile(shares), distinct[places])
