"""The explanation of a table by its columns: slopes of numbers, differences between valid rows for the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from r2et.columns import Columns
from r2et.errors import InputError
from r2et.explainers.by_columns import ByColumns
from r2et.explainers.explainer import EXPLAINERS, Explainer
from r2et.explainers.gradient import Gradient
from r2et.numerics.memory import at_once
from r2et.numerics.values import as_number, check_kind, quoted
from r2et.scores import score


@EXPLAINERS.register("column-effects")
@dataclass(frozen=True, kw_only=True)
class ColumnEffects(ByColumns):
    """One score for each column of a table, from what valid rows determine.

    A number is scored by its slope ds/dx_i, per unit of x. A flag or a category is scored by s(x) - the mean of
    s(x with that column at value v) over its values v, weighted by how often they occur. Only rows that can exist
    are evaluated, so two models that agree on those have one explanation: on 0/1 features a derivative is not
    determined by them, and neither is the slope along the sum of a one-hot group. A number that is missing has no
    slope: it is scored by s(x) - s(x with its stand-in present), so by what the flag says alone.

    It is differentiable by the numbers and by the parameters; discrete columns do not move.

    Args:
        columns: how the features of x (N, n) make up columns.
        reduce: "abs" ranks columns by the magnitude of their effect, "signed" by signed value.
        units: slopes are per this much of each feature, (n,); None = per unit of x.

    >>> columns = Columns(("age", "job"), ((0,), (1, 2)), ("number", "category"), ((), (0.25, 0.75)))
    >>> model = nn.Linear(3, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [0.5, 4.0, 8.0]])
    >>> ColumnEffects(columns=columns, reduce="signed")(model, torch.tensor([[1.0, 1.0, 0.0]]))
    tensor([[ 0.5000, -3.0000]])
    """

    units: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.units is None:
            return
        units = tuple(self.units) if isinstance(self.units, list | tuple) else ()
        numbers = [as_number(unit) for unit in units]
        if len(units) != self.columns.n or any(v is None or not 0 < v < float("inf") for v in numbers):
            raise InputError(
                f"units must be a number above 0 for each of {self.columns.n} features, got {quoted(self.units)}"
            )
        object.__setattr__(self, "units", units)

    @property
    def weights(self) -> Tensor:
        """What the slope of each feature counts: its unit, 0 for what is no number; float64 (n,)."""
        numbers = self.columns.continuous.double()
        return numbers if self.units is None else numbers * torch.tensor(self.units, dtype=torch.float64)

    def in_units(self, scale: Tensor) -> "ColumnEffects":
        """The same effects of the model in other units: slopes are still per unit of x."""
        own = torch.ones(self.columns.n) if self.units is None else torch.tensor(self.units)
        units = own.double() / scale.detach().cpu().double().flatten()
        return replace(self, units=tuple(units.tolist()))

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """Signed effects (N, columns)."""
        numbers, owner = self.columns.continuous.to(x.device), self.columns.owner.to(x.device)
        if create_graph:
            x, logits = self.only_numbers_move(x), None
        logits = model(x) if logits is None else logits
        effects = x.new_zeros(len(x), len(self.columns))
        if self.columns.continuous.any():
            slopes = self.gradient(model, x, target, create_graph=create_graph, logits=logits)
            present = numbers & ~self.columns.missing_in(x)[:, owner]
            slopes = slopes if self.units is None else slopes * self.weights.to(slopes)
            effects = effects.index_add(1, owner, torch.where(present, slopes, 0.0))
        values = _values_of(self.columns)
        if len(values.column) == values.discrete:  # no column has another value
            return effects
        with torch.set_grad_enabled(create_graph):
            here = score(self.score, logits, target)
            return effects + self._differences(model, x, target, here, values.to(x))

    def _differences(self, model: nn.Module, x: Tensor, target: Tensor, here: Tensor, values: "_Values") -> Tensor:
        """The effects of discrete columns (N, columns), from the scores at x (N,); those of numbers are 0."""
        size = at_once(values.pattern.numel())
        parts = []
        for part, classes, clean in zip(x.split(size), target.split(size), here.split(size), strict=True):
            others = values.others(part)
            rows = values.put_into(part, others)
            there = score(self.score, model(rows.flatten(0, 1)), classes.repeat_interleave(others.shape[1]))
            change = values.share[others] * (clean[:, None] - there.reshape(others.shape))
            none = change.new_zeros(len(part), len(self.columns))
            parts.append(none.scatter_add(1, values.column[others], change))
        return torch.cat(parts)

    def alike(self, x: Tensor) -> "list[tuple[ColumnEffects, Tensor]]":
        """Rows x (N, n) of which the same numbers are missing, by their places (M,), each with what explains them.

        There a missing number is a discrete column like others: it has no slope and does not move.

        >>> columns = Columns(("age", "pay"), ((0, 1), (2,)), ("number", "number"), ((), ()), (1, -1))
        >>> rows = torch.tensor([[0.0, 1.0, 2.0], [0.5, 0.0, 2.0]])
        >>> [part.tolist() for _, part in ColumnEffects(columns=columns).alike(rows)]
        [[1], [0]]
        """
        patterns, which = self.columns.missing_in(x).unique(dim=0, return_inverse=True)
        return [
            (
                replace(self, columns=self.columns.where_missing(pattern.nonzero().flatten().tolist())),
                (which == number).nonzero().flatten(),
            )
            for number, pattern in enumerate(patterns)
        ]

    def variants(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rows with which rows x (N, n) are compared: those that differ from them in one discrete column.

        Returns:
            The rows (N, V, n); how much each counts (N, V), the same as x and 0 where a row has fewer; and the
            column in which it differs, int64 (N, V).
        """
        values = _values_of(self.columns).to(x)
        shares = values.shares(x)
        most = int((shares > 0).sum(1).max()) if shares.numel() else 0
        places = (shares > 0).int().argsort(dim=1, descending=True, stable=True)[:, :most]
        members, pattern = values.members[places], values.pattern[places]
        share = shares.gather(1, places)
        differs = members & (share > 0).unsqueeze(2)
        return torch.where(differs, pattern, x[:, None]), share, values.column[places]


def table_explainer(columns: Columns | None) -> Explainer:
    """What explains a table by default: ColumnEffects, or the gradient where every column is one number.

    The two are the same there. None = nothing is known about columns: the gradient.

    >>> table_explainer(Columns(("age", "pay"), ((0,), (1,)), ("number", "number"), ((), ())))
    Gradient(reduce='abs', inputs=1, score='log-odds')
    """
    if columns is not None:
        check_kind("columns", columns, Columns, "r2et.Columns(...) or the columns of r2et.tables.Rows")
    plain = columns is None or (all(kind == "number" for kind in columns.kinds) and len(columns) == columns.n)
    return Gradient() if plain or columns is None else ColumnEffects(columns=columns)


class _Values(NamedTuple):
    """All V values of all discrete columns.

    Attributes:
        column: whose value it is, int64 (V,).
        share: how often it occurs in its column, (V,).
        pattern: what the column's features are then, 0 elsewhere, (V, n).
        members: which features these are, bool (V, n).
        feature, held: a feature that is `held` in the rows that have this value, (V,) each.
        discrete: how many columns these are, with numbers that may be missing.
    """

    column: Tensor
    share: Tensor
    pattern: Tensor
    members: Tensor
    feature: Tensor
    held: Tensor
    discrete: int

    def to(self, like: Tensor) -> "_Values":
        """On the device of a tensor, numbers in its dtype."""
        return self._replace(
            column=self.column.to(like.device),
            share=self.share.to(like),
            pattern=self.pattern.to(like),
            members=self.members.to(like.device),
            feature=self.feature.to(like.device),
            held=self.held.to(like),
        )

    def others(self, x: Tensor) -> Tensor:
        """The numbers of the values that each row x (N, n) has not, int64 (N, V - discrete columns)."""
        own = x[:, self.feature] == self.held
        return own.byte().argsort(dim=1, stable=True)[:, : len(self.column) - self.discrete]

    def shares(self, x: Tensor) -> Tensor:
        """How much each value counts for each row, (N, V): its share, exactly 0 where the row has it anyway."""
        return torch.where(x[:, self.feature] == self.held, 0.0, self.share)

    def put_into(self, x: Tensor, chosen: Tensor) -> Tensor:
        """Rows x (N, n) with each chosen value (N, M) in its column's place, (N, M, n)."""
        return torch.where(self.members[chosen], self.pattern[chosen], x[:, None])


@lru_cache(maxsize=32)
def _values_of(columns: Columns) -> _Values:
    entries = [entry for number in range(len(columns)) for entry in _values_of_column(columns, number)]
    count = len(entries)
    pattern = torch.zeros(count, columns.n, dtype=torch.float64)
    members = torch.zeros(count, columns.n, dtype=torch.bool)
    for row, (_, _, features, value, _, _) in enumerate(entries):
        pattern[row, features], members[row, features] = value, True
    return _Values(
        column=torch.tensor([entry[0] for entry in entries], dtype=torch.int64),
        share=torch.tensor([entry[1] for entry in entries], dtype=torch.float64),
        pattern=pattern,
        members=members,
        feature=torch.tensor([entry[4] for entry in entries], dtype=torch.int64),
        held=torch.tensor([entry[5] for entry in entries], dtype=torch.float64),
        discrete=len({entry[0] for entry in entries}),
    )


def _values_of_column(columns: Columns, number: int) -> list[tuple[int, float, list[int], Tensor, int, float]]:
    """Column, share, features and their values, and a feature with what it is in the rows that have this value."""
    kind, flag, features = columns.kinds[number], columns.missing[number], list(columns.features[number])
    if kind == "number":
        # a number that is missing is compared with its stand-in; one that is there with nothing else
        present = torch.zeros(1, dtype=torch.float64)
        return [(number, 1.0 - held, [flag], present, flag, held) for held in (0.0, 1.0)] if flag >= 0 else []
    values = columns.values(kind, len(features))
    told = []
    for place, (share, value) in enumerate(zip(columns.frequencies[number], values, strict=True)):
        at = place if kind == "category" else 0
        told.append((number, float(share), features, value, features[at], float(value[at])))
    return told
