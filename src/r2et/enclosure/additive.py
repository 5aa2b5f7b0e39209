"""Networks whose score is a sum over columns, and the tables that enclose what it says of every column.

What column c adds to an additive score is a function of this column alone, f(x) = v x + sum of a sigma(w x + b),
and so is its slope. Both have tables, which are of the model: all rows share them.
"""

from torch import Tensor

from r2et.enclosure.activations import Softplus
from r2et.enclosure.network import INPUT, ROUNDING, SMALLEST, Network
from r2et.enclosure.shapes import COARSE, Grading, Shape
from r2et.enclosure.tables import Tables
from r2et.explainers import ColumnEffects, Explainer, Gradient


def why_not_additive(network: Network, explainer: Explainer, classes: int) -> str | None:
    """Why a list is not one of an additive score, so that tables say nothing about it; None if it is."""
    if type(explainer) not in (Gradient, ColumnEffects):
        return f"it is for Gradient and ColumnEffects, not for {type(explainer).__name__}"
    if classes > 2 and explainer.score not in ("logit", "margin"):
        return f"the log-odds of {classes} classes are no sum over columns, even where the logits are"
    if len(network.layers) != 1 or not isinstance(network.layers[0].activation, Softplus):
        return "it is for a score that is a sum over columns, as r2et.models.Additive has it"
    if (network.base[network.blocks[0]] != 0).sum(1).amax() > 1:
        return f"units of layer {network.layers[0].name!r} read several features, so that columns interact"
    if isinstance(explainer, ColumnEffects) and any(
        kind == "number" and len(features) > 1
        for kind, features in zip(explainer.columns.kinds, explainer.columns.features, strict=True)
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
    network: Network, direction: Tensor, offsets: Tensor | None = None, *, grading: Grading = COARSE
) -> Tables | None:
    """Of the score direction . logits, direction (C,), by the features that may move; None if none does.

    Args:
        network: additive.
        direction: the score as a combination of logits.
        offsets: None = tables of the slopes by features. Else of what features add to the score, f(x) - offset,
            with an offset for each of them, (n,).
        grading: how fine they are.
    """
    layer, activation = network.layers[0], network.layers[0].activation
    assert isinstance(activation, Softplus)
    weights = layer.matrices[INPUT]
    heights = direction @ network.logits.matrices.get(0, weights.new_zeros(len(direction), len(weights)))
    linear = network.logits.matrices.get(INPUT)
    linear = weights.new_zeros(weights.shape[1]) if linear is None else direction @ linear
    bent = ((weights != 0) & (heights != 0).unsqueeze(1)).any(0)
    # a slope that is the same everywhere does not move
    moving = bent if offsets is None else bent | (linear != 0)
    features = (moving if network.movable is None else moving & network.movable).nonzero().flatten()
    shapes = []
    for feature in features.tolist():
        units = (weights[:, feature] != 0) & (heights != 0)
        size, steep, bias = heights[units], weights[units, feature], layer.bias[units]
        v = float(linear[feature])
        if offsets is None:
            shapes.append(Shape(v, 0.0, size * steep, steep, bias, activation, of_slopes=True))
        else:
            shapes.append(Shape(-float(offsets[feature]), v, size, steep, bias, activation, of_slopes=False))
    return Tables.of(features, [shape.pieces(shape.edges(grading)) for shape in shapes]) if shapes else None
