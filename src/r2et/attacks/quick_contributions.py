"""Contributions to networks of one hidden layer, by tables: what a search follows in place of thousands of passes.

The mean score of a set S of columns over the background is sum_j r_j G_Sj(a_Sj(x)): a_Sj is what the columns of x
in S add to neuron j, G_Sj(t) the mean over background rows b of sigma(t + what the others add at b), a function
of one number. G is tabulated, with slopes, and read by cubic interpolation. What is found counts as far as the
judge, who evaluates the network itself, finds it too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor, nn

from r2et.attacks.hidden_layer import HiddenLayer
from r2et.attacks.task import Task
from r2et.domain import WithoutGauge
from r2et.enclosure.reading import extract
from r2et.errors import ModelError
from r2et.explainers import Contributions
from r2et.explainers.contributions import coalitions
from r2et.numerics.memory import at_once

#: points of a table: of smooth activations, and of those with kinks
SMOOTH, SHARP = 128, 512
#: entries of tables and of what they are made from, beyond which there are none
LARGEST = 2**25
#: values that a search keeps of each entry of a table that it reads
KEPT = 8


@dataclass(frozen=True, kw_only=True)
class QuickContributions(Contributions):
    """Contributions within a radius of some rows, up to the error of interpolation.

    Args:
        x: rows (N, n).
        far: how far a search goes from them, in L2.
        movable: which features move, bool (n,).
    """

    x: Tensor = field(repr=False, compare=False)
    far: float
    movable: Tensor = field(repr=False, compare=False)
    _tables: "dict[int, tuple[nn.Module, _Table | None]]" = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """Signed contributions (N, columns), by tables where there are some for the model."""
        table = self.table(model)
        if table is None:
            return super().attribute(model, x, target, create_graph=create_graph, logits=logits)
        with torch.set_grad_enabled(create_graph):
            moving = self.only_numbers_move(x)
            parts = [
                table.contributions(rows, classes)
                for rows, classes in zip(moving.split(table.rows), target.split(table.rows), strict=True)
            ]
            return torch.cat(parts).masked_fill(self.never(x), 0.0)

    def table(self, model: nn.Module) -> "_Table | None":
        """The table of a model; None where it is no network of one hidden layer, or would be too large."""
        known = self._tables.get(id(model))
        if known is None:
            # the model is kept, so that its number stays its own
            known = self._tables[id(model)] = model, _Table.of(self, model)
        return known[1]


def quickened(tasks: Sequence[Task]) -> QuickContributions | None:
    """What explains nearly as the explainer of some tasks of one model, in less time; None if nothing does."""
    task = tasks[0]
    explainer = task.attack.explainer
    if type(explainer) is not Contributions or task.attack.norm != "l2" or task.x.device.type != "cpu":
        return None
    far = max(float(own.budget.max()) for own in tasks)
    settings = {entry.name: getattr(explainer, entry.name) for entry in fields(explainer) if entry.init}
    quick = QuickContributions(**settings, x=torch.cat([own.x for own in tasks]), far=far, movable=task.movable)
    return None if quick.table(task.model) is None else quick


@dataclass(frozen=True, eq=False)
class _Table:
    """G of all S sets of columns and h neurons.

    Attributes:
        layer: the network.
        shared: how columns make up sets, (S, columns).
        weights: of the sets in contributions, (S, columns).
        owner: the column of each feature, int64 (n,).
        low, step: of the points of each table, (S, h) each.
        cubic: coefficients of 1, f, f^2, f^3 between two points, (S h points, 4).
        points: of each table.
        readout: what neurons weigh in the score of each class, (C, h), and what is added to it, (C,).
    """

    layer: HiddenLayer
    shared: Tensor
    weights: Tensor
    owner: Tensor
    low: Tensor
    step: Tensor
    cubic: Tensor
    points: int
    readout: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, explainer: QuickContributions, model: nn.Module) -> "_Table | None":
        layer = _hidden_layer(model, explainer)
        if layer is None:
            return None
        columns, background = explainer.columns, explainer.background.tensor
        sets = coalitions(len(columns), explainer.pairs, explainer.seed)
        inside = sets.members[:, columns.owner].double()
        points = SMOOTH if layer.activation.smooth else SHARP
        if inside.shape[0] * len(layer.w1) * max(4 * points, len(background)) > LARGEST:
            return None
        own = _sums(inside, explainer.x.double(), layer.w1, layer.b1)
        reach = explainer.far * ((inside * explainer.movable.double()) @ layer.w1.square().T).sqrt()
        low, high = own[0] - reach, own[1] + reach
        step = ((high - low) / (points - 2)).clamp_min(1e-9)
        # background rows with the columns that are not in a set, (B, S, h)
        rest = torch.einsum("bn,sn,hn->bsh", background, 1 - inside, layer.w1)
        two = len(layer.w2) == 2 and explainer.score != "logit"
        readout = layer.w2 - layer.w2.flip(0) if two else layer.w2
        shift = layer.b2 - layer.b2.flip(0) if two else layer.b2
        return cls(
            layer,
            sets.members.double(),
            sets.weights,
            columns.owner,
            low,
            step,
            _cubics(layer, low, step, rest, points),
            points,
            (readout, shift),
        )

    @property
    def rows(self) -> int:
        """How many points are looked at together."""
        return at_once(self.low.numel(), copies=KEPT)

    def contributions(self, x: Tensor, target: Tensor) -> Tensor:
        """Of points x (N, n), (N, columns)."""
        dtype = torch.float32
        parts = (x.double()[:, None] * self.layer.w1).to(dtype)
        of_columns = parts.new_zeros(*parts.shape[:2], self.shared.shape[1]).index_add(2, self.owner, parts)
        t = torch.einsum("nhc,sc->nsh", of_columns, self.shared.to(dtype)) + self.layer.b1.to(dtype)
        place = ((t - self.low.to(dtype)) / self.step.to(dtype)).flatten(1)
        whole = place.detach().floor().clamp(0, self.points - 2)
        f = place - whole
        number = whole.long() + torch.arange(place.shape[1]) * self.points
        a, b, c, d = nn.functional.embedding(number, self.cubic).unbind(-1)
        values = (a + f * (b + f * (c + f * d))).unflatten(1, self.low.shape)
        readout, shift = self.readout
        scores = torch.einsum("nsh,nh->ns", values, readout[target].to(dtype)) + shift[target, None].to(dtype)
        return (scores @ self.weights.to(dtype)).to(x.dtype)


def _hidden_layer(model: nn.Module, explainer: Contributions) -> HiddenLayer | None:
    """A network whose score is a weighted sum of its hidden neurons, in float64."""
    model = model.model if isinstance(model, WithoutGauge) else model
    try:
        layer = HiddenLayer.of(extract(model, torch.Size([explainer.columns.n])), torch.float64)
    except ModelError:
        return None
    if layer is None:
        return None
    plain = explainer.score == "logit" or (explainer.score in ("log-odds", "margin") and len(layer.w2) == 2)
    return layer if plain else None


def _sums(inside: Tensor, x: Tensor, w1: Tensor, b1: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and largest of what sets of features, (S, n), of rows (N, n) add to neurons, (S, h) each."""
    lowest = highest = None
    for rows in x.split(at_once(inside.shape[0] * len(w1), copies=4)):
        sums = torch.einsum("nf,sf,hf->nsh", rows, inside, w1)
        low, high = sums.amin(0), sums.amax(0)
        lowest = low if lowest is None else torch.minimum(lowest, low)
        highest = high if highest is None else torch.maximum(highest, high)
    assert lowest is not None
    assert highest is not None
    return lowest + b1, highest + b1


def _cubics(layer: HiddenLayer, low: Tensor, step: Tensor, rest: Tensor, points: int) -> Tensor:
    """Coefficients (S h points, 4) of G between its points; others add `rest` in the background, (B, S, h)."""
    values = low.new_empty(points, *low.shape)
    slopes = torch.empty_like(values)
    for number in range(points):
        z = (low + number * step + rest).flatten(1)
        values[number] = layer.activation.value(z).mean(0).reshape(low.shape)
        slopes[number] = layer.activation.slope_at(z).mean(0).reshape(low.shape) * step
    rise = values.diff(dim=0)
    first, second = slopes[:-1], slopes[1:]
    curves = torch.stack([values[:-1], first, 3 * rise - 2 * first - second, first + second - 2 * rise], -1)
    # the last point begins no piece
    curves = torch.cat([curves, torch.zeros_like(curves[:1])])
    return curves.permute(1, 2, 0, 3).reshape(-1, 4).float().contiguous()
