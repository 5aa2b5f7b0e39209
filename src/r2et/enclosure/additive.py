"""Networks whose score is a sum over columns, and the tables that enclose what it says of every column.

What column c adds to an additive score is a function of this column alone, f(x) = v x + sum of a sigma(w x + b),
and so is its slope. Both have tables, which are of the model: all rows share them.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from r2et.columns import Columns
from r2et.enclosure.activations import Softplus
from r2et.enclosure.network import INPUT, ROUNDING, SMALLEST, Layer, Network
from r2et.enclosure.shapes import COARSE, Grading, Shape
from r2et.enclosure.tables import Tables
from r2et.explainers import ColumnEffects, Contributions, Explainer, Gradient

#: how far apart weights of features that are always equal may be, as a share of the largest
SAME = 1e-12


@dataclass(frozen=True)
class Sum:
    """c + linear . x + sum over units of heights * activation(weights x + bias).

    Attributes:
        activation: of all units.
        weights: (h, n).
        bias: (h,).
        heights: (h,).
        linear: (n,).
        movable: bool (n,), None = all features.
    """

    activation: Softplus
    weights: Tensor
    bias: Tensor
    heights: Tensor
    linear: Tensor
    movable: Tensor | None

    @staticmethod
    def of(network: Network, direction: Tensor) -> "Sum":
        """The score direction . logits, direction (C,), of a network with one layer of softplus, or with none."""
        linear = network.logits.matrices.get(INPUT)
        linear = network.base.new_zeros(network.base.shape[1]) if linear is None else direction @ linear
        if not network.layers:
            none = linear.new_zeros(0)
            return Sum(Softplus(), none.reshape(0, len(linear)), none, none, linear, network.movable)
        layer = network.layers[0]
        assert isinstance(layer.activation, Softplus)
        weights = layer.matrices[INPUT]
        heights = direction @ network.logits.matrices.get(0, weights.new_zeros(len(direction), len(weights)))
        return Sum(layer.activation, weights, layer.bias, heights, linear, network.movable)


def why_not_additive(network: Network, explainer: Explainer, classes: int) -> str | None:
    """Why a list is not one of an additive score, so that tables say nothing about it; None if it is."""
    if type(explainer) not in (Gradient, ColumnEffects, Contributions):
        return f"it is for Gradient, ColumnEffects and Contributions, not for {type(explainer).__name__}"
    if classes > 2 and explainer.score not in ("logit", "margin"):
        return f"the log-odds of {classes} classes are no sum over columns, even where the logits are"
    if isinstance(explainer, Contributions):
        return why_not_sum(network, explainer.columns)
    if len(network.layers) != 1 or not isinstance(network.layers[0].activation, Softplus):
        return "it is for a score that is a sum over columns, as r2et.models.Additive has it"
    if (network.base[network.blocks[0]] != 0).sum(1).amax() > 1:
        return f"units of layer {network.layers[0].name!r} read several features, so that columns interact"
    if isinstance(explainer, ColumnEffects) and any(
        kind == "number" and len(explainer.columns.valued(number)) > 1
        for number, kind in enumerate(explainer.columns.kinds)
    ):
        return "a number of this table is encoded as several features"
    return None


def slopes_at(network: Network, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of an additive score at x (N, n) by its formula, what rounding may do to it, and to the score.

    Args:
        network: additive.
        x: (N, n).
        rows: the scores as combinations of logits, (N, C).

    Returns:
        (N, n), (N, n) and (N, 1).
    """
    layer, logits = network.layers[0], network.logits
    assert isinstance(layer.activation, Softplus)
    weights, z = layer.matrices[INPUT], network.forward(x)[0][0]
    nothing = weights.new_zeros(rows.shape[1], weights.shape[1])
    heights, direct = logits.matrices.get(0, nothing[:, :0]), logits.matrices.get(INPUT, nothing)
    slopes = layer.activation.slope(z, z)[0]
    gradient = rows @ direct + (rows @ heights * slopes) @ weights
    blurred = 1 + layer.activation.beta * (x.abs() @ weights.abs().T + layer.bias.abs())
    sizes = rows.abs() @ direct.abs() + (rows.abs() @ heights.abs() * blurred) @ weights.abs()
    values = layer.activation.value(z).abs() @ heights.abs().T + x.abs() @ direct.abs().T + logits.bias.abs()
    return gradient, ROUNDING * sizes + SMALLEST, ROUNDING * (rows.abs() * values).sum(1, keepdim=True)


def tables(
    network: Network,
    direction: Tensor,
    offsets: Tensor | None = None,
    *,
    grading: Grading = COARSE,
    weights: Tensor | None = None,
) -> Tables | None:
    """Of the score direction . logits, direction (C,), by the features that may move; None if none does.

    Args:
        network: additive.
        direction: the score as a combination of logits.
        offsets: None = tables of the slopes by features. Else of what features add to the score, f(x) - offset,
            with an offset for each of them, (n,).
        grading: how fine they are.
        weights: what the slope of each feature counts, (n,); None = 1.
    """
    return tables_of(Sum.of(network, direction), offsets, grading=grading, counts=weights)


def tables_of(
    score: Sum,
    offsets: Tensor | None = None,
    *,
    grading: Grading = COARSE,
    counts: Tensor | None = None,
) -> Tables | None:
    """The same of a score that is written out."""
    each = None if counts is None else counts.tolist()
    weights, heights, linear = score.weights, score.heights, score.linear
    bent = ((weights != 0) & (heights != 0).unsqueeze(1)).any(0)
    # a slope that is the same everywhere does not move
    moving = bent if offsets is None else bent | (linear != 0)
    features = (moving if score.movable is None else moving & score.movable).nonzero().flatten()
    shapes = []
    for feature in features.tolist():
        units = (weights[:, feature] != 0) & (heights != 0)
        size, steep, bias = heights[units], weights[units, feature], score.bias[units]
        v = float(linear[feature])
        if offsets is None:
            unit = 1.0 if each is None else each[feature]
            slopes = unit * size * steep
            shapes.append(Shape(unit * v, 0.0, slopes, steep, bias, score.activation, of_slopes=True))
        else:
            shift = -float(offsets[feature])
            shapes.append(Shape(shift, v, size, steep, bias, score.activation, of_slopes=False))
    return Tables.of(features, [shape.pieces(shape.edges(grading)) for shape in shapes]) if shapes else None


def by_coordinates(network: Network, columns: Columns) -> tuple[Network, Tensor]:
    """A network with one coordinate for features of a number that move together, and x @ it, (n, coordinates).

    Features that are always equal are one number: the coordinate is their sum over the root of how many they are,
    which moves by no more than they do.
    """
    n = columns.n
    movable = torch.ones(n, dtype=torch.bool) if network.movable is None else network.movable.cpu()
    groups: list[list[int]] = []
    for features, kind in zip(columns.features, columns.kinds, strict=True):
        together = [i for i in features if kind == "number" and movable[i]]
        groups += [[i] for i in features if i not in together] + ([together] if together else [])
    if len(groups) == n:
        return network, torch.eye(n, dtype=torch.float64, device=network.base.device)
    onto = torch.zeros(n, len(groups), dtype=torch.float64, device=network.base.device)
    for number, features in enumerate(groups):
        onto[features, number] = len(features) ** -0.5
    layers = tuple(_onto(layer, onto) for layer in network.layers)
    kept = torch.tensor([bool(movable[features[0]]) for features in groups], device=network.base.device)
    return replace(
        network, layers=layers, logits=_onto(network.logits, onto), base=network.base @ onto, movable=kept
    ), onto


def _onto(layer: Layer, onto: Tensor) -> Layer:
    matrices = {source: m @ onto if source == INPUT else m for source, m in layer.matrices.items()}
    return replace(layer, matrices=matrices)


def why_not_sum(network: Network, columns: Columns) -> str | None:
    """Why the logits of a network are not sums of functions of one column each; None if they are."""
    if len(network.layers) > 1 or not all(isinstance(layer.activation, Softplus) for layer in network.layers):
        return "it is for linear scores and sums over columns, as r2et.models.Additive has them"
    coordinates, onto = by_coordinates(network, columns)
    apart = (network.moving - (network.moving @ onto) @ onto.T).abs()
    if bool((apart > SAME * network.moving.abs().amax(1, keepdim=True)).any()):
        return "features that are one number of the table have different weights, and may move apart"
    if network.layers and (coordinates.base[coordinates.blocks[0]] != 0).sum(1).amax() > 1:
        return f"units of layer {network.layers[0].name!r} read several features, so that columns interact"
    return None
