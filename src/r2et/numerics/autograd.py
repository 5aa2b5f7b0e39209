"""Small steps of automatic differentiation that everything above shares."""

from typing import Any

import torch
from torch import Tensor, nn


def forward(model: nn.Module, x: Tensor, *, create_graph: bool = False) -> tuple[Tensor, Tensor]:
    """The point to differentiate at, and the model's logits there.

    With `create_graph` a point that already requires gradients is used as it is, so that a caller can
    differentiate the explanation with respect to it.
    """
    point = x if create_graph and x.requires_grad else x.detach().requires_grad_()
    with torch.enable_grad():
        return point, model(point)


def derivative(
    outputs: Tensor,
    inputs: Tensor,
    vector: Tensor | None = None,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> Tensor:
    """The vector-Jacobian product, in the shape of inputs; zero where nothing connects the two.

    An explanation without curvature, such as a linear model's, has a derivative: it is zero.
    """
    if not outputs.requires_grad:
        return torch.zeros_like(inputs)
    product: Tensor | None = torch.autograd.grad(
        outputs, inputs, vector, create_graph=create_graph, retain_graph=retain_graph, allow_unused=True
    )[0]
    return torch.zeros_like(inputs) if product is None else product


def negligible(dtype: torch.dtype) -> float:
    """Magnitudes below this have reciprocals whose products with ordinary numbers overflow.

    >>> negligible(torch.float32) < 1e-30
    True
    """
    return float(torch.finfo(dtype).tiny ** 0.8)


def unit(vectors: Tensor) -> Tensor:
    """Each row (N, ...) divided by its L2 norm, differentiable; finite whatever the row holds.

    A zero row stays zero. Infinite entries outweigh all others of their row, and a row with NaN has no direction:
    it becomes zero. Rows of negligible or infinite length are constants to a derivative.

    >>> unit(torch.tensor([[3e-40, 4e-40], [0.0, 0.0], [-torch.inf, 1.0], [torch.nan, 1.0]]))
    tensor([[ 0.6000,  0.8000],
            [ 0.0000,  0.0000],
            [-1.0000,  0.0000],
            [ 0.0000,  0.0000]])
    """
    flat = vectors.flatten(start_dim=1)
    tiny = torch.finfo(vectors.dtype).tiny
    largest = flat.detach().abs().amax(1, keepdim=True)
    finite = largest.isfinite()
    infinite = torch.where(flat.isinf() & ~largest.isnan(), flat.detach().sign(), 0.0)
    constant = torch.where(finite, flat.detach(), infinite)
    # selected, not multiplied: a slope of zero times an infinite one would not be a number
    flat = torch.where(finite & (largest > negligible(flat.dtype)), flat, constant)
    # the squares of a saturated model's gradients underflow: bring the largest entry to 1 first
    flat = flat / torch.where(finite, largest, 1.0).clamp_min(tiny)
    length: Tensor = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    return (flat / length.clamp_min(tiny)).reshape(vectors.shape)


def written_backwards(output: Tensor) -> list[str]:
    """The names of classes of `torch.autograd.Function` on the way to a tensor: their slopes may be any.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     def backward(ctx, slope):
    ...         return 3 * slope
    >>> x = torch.ones(2, requires_grad=True)
    >>> written_backwards(Double.apply(x).sum()), written_backwards((2 * x).sum())
    (['Double'], [])
    """
    found: dict[str, None] = {}
    seen = set()
    left: list[Any] = [output.grad_fn]  # torch does not say that the steps of classes are steps too
    while left:
        step = left.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        if isinstance(step, torch.autograd.function.BackwardCFunction):
            found[type(step).__name__.removesuffix("Backward")] = None
        left += [before for before, _ in step.next_functions]
    return list(found)
