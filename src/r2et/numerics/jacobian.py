"""The derivative of an explanation with respect to its input: the Hessian, for Gradient."""

import torch
from torch import Tensor


def jacobian(scores: Tensor, x: Tensor, *, create_graph: bool = False, chunk_size: int = 64) -> Tensor:
    """H_i = d I_i / d x for every feature i; quadratic in the number of features.

    Args:
        scores: the explanation (N, ...), made from x with `create_graph=True`.
        x: (N, ...), requires gradients.
        create_graph: keep the result differentiable.
        chunk_size: how many features are differentiated at once.

    Returns:
        (N, m, d): m scores and d input values per sample.

    >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> jacobian(x**2, x)
    tensor([[[2., 0.],
             [0., 4.]]])
    """
    flat = scores.flatten(start_dim=1)
    rows, count = flat.shape
    if not flat.requires_grad:
        # an explanation that no longer depends on x, such as that of a linear model
        return flat.new_zeros(rows, count, x[0].numel())
    parts = []
    for first in range(0, count, chunk_size):
        last = min(first + chunk_size, count)
        picks = torch.zeros(last - first, rows, count, dtype=flat.dtype, device=flat.device)
        numbers = torch.arange(last - first, device=flat.device)
        picks[numbers, :, first + numbers] = 1
        part = torch.autograd.grad(
            flat, x, picks, create_graph=create_graph, retain_graph=True, allow_unused=True, is_grads_batched=True
        )[0]
        parts.append(picks.new_zeros(last - first, *x.shape) if part is None else part)
    return torch.cat(parts).flatten(start_dim=2).transpose(0, 1)
