"""Where PyTorch's activation is not the smooth function that is enclosed, and how far that reaches."""

import torch
from torch import Tensor

from r2et.enclosure.box import Box
from r2et.enclosure.head import Head
from r2et.enclosure.jacobian import norm_bound, row_norms
from r2et.enclosure.network import INPUT, Network


def model_error(
    network: Network,
    head: Head,
    ranges: list[tuple[Tensor, Tensor]],
    jacobians: list[Box | None],
    slope: Box,
) -> tuple[Tensor, Tensor]:
    """How far the score's derivative in a direction of length 1 (N,), and the outputs, may be from PyTorch's.

    The direction is any, also one of features that do not move: they are explained like the others.

    PyTorch's softplus turns into a straight line above a threshold; the jumps there are tiny and are carried
    through the layers: errors of values, then of tangents. The ranges are centred on PyTorch's pre-activations and
    the enclosed network is the smooth one: think of it with biases shifted so that both agree at x. All jumps have
    one sign, so that differences of errors stay within one jump.
    """
    known = [layer.activation for layer in network.layers if layer.activation is not None]
    jumps = [activation.value_error(upper) for activation, (_, upper) in zip(known, ranges, strict=True)]
    if all(jump is None or not (jump > 0).any() for jump in jumps):
        return head.outputs.new_zeros(len(head.outputs)), torch.zeros_like(head.outputs)
    rows = len(head.outputs)
    lengths = [row_norms(network.whole, number, box, rows) for number, box in enumerate(jacobians[:-1])]
    last = jacobians[-1]
    assert last is not None
    heights = norm_bound(network.whole, last)
    of_value: list[Tensor] = []
    of_tangent: list[Tensor] = []
    for number, (layer, activation) in enumerate(zip(network.layers, known, strict=True)):
        lower, upper = ranges[number]
        value, tangent = torch.zeros_like(upper), torch.zeros_like(upper)
        for source, matrix in layer.matrices.items():
            if source != INPUT:
                value = value + of_value[source] @ matrix.abs().T
                tangent = tangent + of_tangent[source] @ matrix.abs().T
        steep = torch.stack(activation.slope(lower - value, upper + value)).abs().amax(0)
        bent = torch.stack(activation.curvature(lower - value, upper + value)).abs().amax(0)
        moved, turned = steep * value, bent * value
        jump, kink = activation.value_error(upper + value), activation.slope_error(upper + value)
        if jump is not None and kink is not None:
            moved, turned = moved + jump, turned + kink
        of_value.append(moved)
        of_tangent.append(steep * tangent + turned * (lengths[number] + tangent))
    value, tangent = torch.zeros_like(heights), torch.zeros_like(heights)
    for source, matrix in head.matrices.items():
        value = value + (matrix.abs() @ of_value[source].unsqueeze(2)).squeeze(2)
        tangent = tangent + (matrix.abs() @ of_tangent[source].unsqueeze(2)).squeeze(2)
    through = (slope.magnitude * tangent).sum(1)
    if not head.linear:
        # softmax moves by at most 2 x the largest change of its inputs, in the sum of absolute values
        through = through + 2 * value.amax(1) * (heights + tangent).amax(1)
    return through, value
