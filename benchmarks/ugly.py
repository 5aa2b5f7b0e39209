"""Random networks that are hard on proofs, with inputs, lists, explanations and threats, all drawn from a seed.

Ties between features, classes, units and windows; dead units; weights and inputs from 1e-3 to 1e3; up to 64 units;
residual sums, BatchNorm, convolution, pooling; single precision; lists of one feature and of all but one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.hunting import KINKED, SMOOTH, Mixed, Skip, numbers
from r2et import Columns, Domain
from r2et.domain import Threat
from r2et.explainers import ColumnEffects, Explainer, Gradient, GradientTimesInput, SmoothGrad
from r2et.models import Additive

Bends = tuple[Callable[[], nn.Module], ...]
Build = Callable[[Random, int, int], nn.Module]

#: what is done to the weights and inputs
TRAITS = (
    "plain",
    "copied units",
    "dead units",
    "no biases, inputs on hinges",
    "whole numbers",
    "copied features",
    "copied classes",
)
#: sizes of weights or inputs that are not extreme, and how often they are
USUAL, SHARE_USUAL = (0.3, 1.0, 2.0, 5.0), 0.55
#: factors of extreme ones lie between 10 to the minus and plus this
DECADES = 3.0
SCORES = ("log-odds", "logit", "margin", "probability")
#: of explanations that compare several points
SCORES_OF_SEVERAL = ("log-odds", "logit")
ORDERS = ("abs", "signed")
#: nets that the judge of tests/opponent.py reads
READABLE: Bends = (
    nn.ReLU,
    nn.Softplus,
    lambda: nn.Softplus(5.0),
    lambda: nn.Softplus(0.5),
    lambda: nn.Softplus(50.0),
)
#: images are flattened: the threats are about rows of numbers
SIDE = 4


class Residual(nn.Module):
    """h + inner(bend(norm(h))), with h = first(x), and a bend before the logits."""

    def __init__(self, n: int, width: int, classes: int, bends: tuple[nn.Module, nn.Module]) -> None:
        super().__init__()
        self.first, self.inner = nn.Linear(n, width), nn.Linear(width, width)
        self.norm, self.last_norm = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.bend, self.last_bend = bends
        self.last = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, classes) of x (N, n)."""
        h = self.first(x)
        h = h + self.inner(self.bend(self.norm(h)))
        logits: Tensor = self.last(self.last_bend(self.last_norm(h)))
        return logits


def width(draw: Random, most: int = 64) -> int:
    """A number of units, small ones as often as large ones on a scale of logarithms."""
    return min(most, round(2 ** draw.uniform(0, 6)))


def shallow(draw: Random, n: int, classes: int) -> nn.Module:
    """One hidden layer, as the judge reads it."""
    h = width(draw)
    return nn.Sequential(nn.Linear(n, h), draw.choice(READABLE)(), nn.Linear(h, classes))


def deep(bends: Bends) -> Build:
    """One to three hidden layers, perhaps with a direct way to the logits."""

    def build(draw: Random, n: int, classes: int) -> nn.Module:
        layers: list[nn.Module] = []
        before = n
        for _ in range(draw.choice((1, 1, 2, 2, 3))):
            layers += [nn.Linear(before, before := width(draw, 32)), draw.choice(bends)()]
        return Skip(nn.Sequential(*layers, nn.Linear(before, classes)), n, classes, draw.random() < 0.4)

    return build


def residual(draw: Random, n: int, classes: int) -> nn.Module:
    """A residual block with BatchNorm, smooth or kinked."""
    bends = draw.choice((SMOOTH, KINKED))
    return Residual(n, width(draw, 16), classes, (draw.choice(bends)(), draw.choice(bends)()))


def pooled_units(draw: Random, n: int, classes: int) -> nn.Module:
    """Max-pooling of linear units."""
    sizes = draw.randint(2, 4), draw.randint(1, 3), draw.randint(1, 6)
    return Mixed(n, classes, *sizes, draw.choice(KINKED)())


def convolution(draw: Random, n: int, classes: int) -> nn.Module:
    """Convolution, BatchNorm in half of them, pooling by maxima (kinked) or averages (smooth)."""
    smooth = draw.random() < 0.5
    bend = draw.choice(SMOOTH if smooth else KINKED)()
    pool: nn.Module = nn.AvgPool2d(2) if smooth else nn.MaxPool2d(2, padding=draw.choice((0, 1)))
    norm = [nn.BatchNorm2d(3)] if draw.random() < 0.5 else []
    parts = [bend, pool] if smooth or draw.random() < 0.5 else [pool, bend]
    start = nn.Unflatten(1, (1, SIDE, SIDE))
    body = nn.Sequential(start, nn.Conv2d(1, 3, 3, padding=1), *norm, *parts, nn.Flatten()).eval()
    return nn.Sequential(body, nn.Linear(body(torch.zeros(1, SIDE * SIDE)).shape[1], classes))


KINDS: dict[str, Build] = {
    "one hidden layer, as the judge reads it": shallow,
    "MLP, smooth": deep(SMOOTH),
    "MLP, ReLU and LeakyReLU": deep(KINKED),
    "residual, BatchNorm": residual,
    "max-pooling of units": pooled_units,
    "convolution": convolution,
    "additive": lambda draw, n, classes: Additive(n, classes),  # made anew once the columns are known
    "linear": lambda draw, n, classes: nn.Linear(n, classes),
}
#: those that the judge reads
JUDGED = ("one hidden layer, as the judge reads it",)
#: how often each of them is drawn
SHARES = (7, 4, 4, 3, 2, 2, 2, 1)


@dataclass(frozen=True)
class Case:
    """A network, inputs and what is certified about them.

    Attributes:
        seed: it was drawn from.
        labels: what was drawn, by heading.
        model: in evaluation mode, float32 or float64.
        x: (N, n), of the dtype of the model.
        k: size of the list.
        explainer: whose list it is.
        domain: what exists; None = that is unknown.
        threat: what may move.
        target: the explained class (N,); None = the predicted one.
    """

    seed: int
    labels: dict[str, str]
    model: nn.Module
    x: Tensor
    k: int
    explainer: Explainer
    domain: Domain | None
    threat: Threat
    target: Tensor | None


def drawn(seed: int, rows: int, kind: str | None = None, trait: str | None = None) -> Case:
    """The case of a seed; kind and trait are drawn unless they are asked for."""
    draw = Random(seed)
    kind = kind or draw.choices(list(KINDS), SHARES)[0]
    trait = trait or draw.choice(TRAITS)
    columns = _columns(draw, kind)
    n, classes = columns.n, draw.choice((2, 2, 2, 3, 4, 5, 10))
    explainer, threat = _explanation(draw, columns, kind)
    model = _additive(draw, columns, classes) if kind == "additive" else KINDS[kind](draw, n, classes)
    size, where = _size(draw, trait)
    _fill(model.double().eval(), draw, trait, size if where != "inputs" else 1.0, where)
    x = _inputs(draw, rows, columns, trait) if where != "inputs" else _inputs(draw, rows, columns, trait, size)
    ranked = len(columns) if isinstance(explainer, ColumnEffects) else n
    k, place = _list(draw, ranked)
    dtype = draw.choice((torch.float64, torch.float64, torch.float32))
    fixed = draw.random() < (0.6 if classes == 2 else 0.85)
    target = torch.full((rows,), draw.randrange(classes)) if fixed else None
    labels = {
        "network": kind,
        "trait": trait,
        "classes": str(classes),
        "explanation": type(explainer).__name__,
        "score": explainer.score,
        "order": explainer.reduce,
        "threat": threat,
        "list": place,
        "number type": str(dtype).removeprefix("torch."),
        "weights or inputs": "extreme" if size not in (*USUAL, 1.0) else "usual",
        "class": "any one" if fixed else "the predicted one",
    }
    return Case(
        seed,
        labels,
        _ready(model, dtype),
        x.to(dtype),
        k,
        explainer,
        _domain(draw, columns, threat),
        threat,
        target,
    )


def _ready(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    for parameter in model.parameters():
        parameter.requires_grad_(requires_grad=False)
    return model.to(dtype).eval()


def _columns(draw: Random, kind: str) -> Columns:
    """Numbers alone, or with flags and categories of two or three."""
    if kind == "convolution":
        sizes = [1] * SIDE**2
    else:
        table = draw.random() < 0.45
        sizes = [1] * (draw.randint(2, 6) if table else draw.choice((2, 3, 4, 5, 6, 8, 12)))
        sizes += draw.choice(([2], [2, 3], [3, 0], [2, 2, 0], [0, 0, 3])) if table else []
    kinds = ["number" if size == 1 else "category" if size else "flag" for size in sizes]
    ends = [sum(max(size, 1) for size in sizes[: place + 1]) for place in range(len(sizes))]
    features = [tuple(range(end - max(size, 1), end)) for end, size in zip(ends, sizes, strict=True)]
    shares: list[tuple[float, ...]] = [
        () if size == 1 else (0.25, 0.75) if size != 3 else (0.2, 0.5, 0.3) for size in sizes
    ]
    names = [f"column {number}" for number in range(len(sizes))]
    return Columns(names, features, kinds, shares)  # type: ignore[arg-type]  # the kinds are those


def _explanation(draw: Random, columns: Columns, kind: str) -> tuple[Explainer, Threat]:
    """What is explained, and a threat under which it can be."""
    threat: Threat = draw.choice(("paper", "paper", "tangent", "domain"))
    order, several = draw.choice(ORDERS), draw.choice(SCORES_OF_SEVERAL)
    score = draw.choice(SCORES)
    table = not columns.continuous.all()
    chance = draw.random()
    if table and len(columns) > 1 and chance < 0.4:
        return ColumnEffects(columns=columns, score=several, reduce=order), "domain"
    if kind in JUDGED and chance < 0.7:
        score = draw.choice(("log-odds", "log-odds", "probability"))
        return Gradient(score=score), draw.choice(("paper", "tangent"))
    if kind == "additive" and chance < 0.8:
        return Gradient(score=draw.choice(("log-odds", "margin", "probability")), reduce=order), threat
    if chance < 0.55:
        return Gradient(score=score, reduce=order), threat
    if chance < 0.75:
        return GradientTimesInput(score=score, reduce=order), threat
    if chance < 0.87:
        sigma, samples = draw.choice((0.1, 0.5)), draw.choice((2, 3))
        return SmoothGrad(samples=samples, sigma=sigma, score=several, reduce=order), threat
    return Gradient(score=score, reduce=order), threat


def _domain(draw: Random, columns: Columns, threat: str) -> Domain | None:
    """The domain of the columns; where all are numbers and some must be still, with some of them frozen."""
    table = not columns.continuous.all()
    if threat == "paper":
        return None
    if table or threat == "tangent":
        return columns.domain()
    frozen = draw.sample(range(columns.n), draw.randint(0, columns.n - 1))
    return Domain(frozen=sorted(frozen))


def _list(draw: Random, ranked: int) -> tuple[int, str]:
    """k, and what it is."""
    place = draw.choice(("one", "all but one", "some", "some"))
    k = {"one": 1, "all but one": ranked - 1}.get(place) or draw.randint(1, ranked - 1)
    if ranked == 2:
        return 1, "one of two"
    return k, {"one": "one", "all but one": "all but one"}.get(place, "some")


def _additive(draw: Random, columns: Columns, classes: int) -> nn.Module:
    of_numbers = columns.continuous.nonzero().flatten().tolist()
    groups = [list(features) for features in columns.features if len(features) > 1]
    units, beta = draw.choice((1, 3, 8)), draw.choice((1.0, 5.0, 20.0))
    return Additive(columns.n, classes, numeric=of_numbers, groups=groups, units=units, beta=beta)


def _size(draw: Random, trait: str) -> tuple[float, str]:
    """A factor, and what it is of."""
    where = draw.choice(("all layers", "first layer", "last layer", "inputs"))
    if trait == "whole numbers":
        return 1.0, where
    if draw.random() < SHARE_USUAL:
        return draw.choice(USUAL), "all layers"
    return 10 ** draw.uniform(-DECADES, DECADES), where


def _inputs(draw: Random, rows: int, columns: Columns, trait: str, size: float = 1.0) -> Tensor:
    """Rows that exist, (rows, n)."""
    x = size * numbers(rows, columns.n, seed=draw.randrange(10**9))
    if trait == "whole numbers":
        x = x.round()
    if trait == "no biases, inputs on hinges":
        x = x * (x > -0.3 * size)
    if trait == "copied features":
        x[:, 1] = x[:, 0]
    for features, kind in zip(columns.features, columns.kinds, strict=True):
        if kind != "number":
            chosen = torch.tensor([draw.randrange(max(2, len(features))) for _ in range(rows)])
            x[:, list(features)] = (
                chosen[:, None].double()
                if kind == "flag"
                else nn.functional.one_hot(chosen, len(features)).double()
            )
    return x


@torch.no_grad()
def _fill(model: nn.Module, draw: Random, trait: str, size: float, where: str) -> None:
    parameters = list(model.parameters())
    for number, parameter in enumerate(parameters):
        values = numbers(*parameter.shape, seed=draw.randrange(10**9))
        scaled = where == "all layers" or (number < 2 if where == "first layer" else number >= len(parameters) - 2)
        if trait == "whole numbers":
            parameter.copy_(values.round())
        else:
            parameter.copy_((size if scaled else 1.0) * values / parameter[0].numel() ** 0.5)
    for norm in model.modules():
        if isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d)):
            mean, spread = numbers(2, norm.num_features, seed=draw.randrange(10**9))
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(spread.exp())
    layers: list[Any] = [layer for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    for layer in layers:
        _make_ugly(layer, draw, trait, last=layer is layers[-1], first=layer is layers[0])


def _make_ugly(layer: Any, draw: Random, trait: str, *, last: bool, first: bool) -> None:
    """Do to a layer what the trait says."""
    weight, bias = layer.weight, layer.bias
    if trait == "no biases, inputs on hinges" and bias is not None:
        bias.zero_()
    if trait == "copied features" and first and isinstance(layer, nn.Linear):
        weight[:, 1] = weight[:, 0] * draw.choice((1.0, -1.0))
    for row in range(len(weight)):
        dead = trait == "dead units" and not last and draw.random() < 0.4
        copied = (trait == "copied units" and not last) or (trait == "copied classes" and last)
        if dead:
            weight[row] = 0.0
            if bias is not None:
                bias[row] = 0.0
        if copied and row and draw.random() < 0.6:
            weight[row] = weight[row - 1]
            if bias is not None:
                bias[row] = bias[row - 1]
