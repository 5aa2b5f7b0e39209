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
    everyone = torch.arange(flat.shape[1], device=flat.device).expand(len(flat), -1)
    return jacobian_rows(flat, x, everyone, create_graph=create_graph, chunk_size=chunk_size)


def jacobian_rows(
    scores: Tensor, x: Tensor, numbers: Tensor, *, create_graph: bool = False, chunk_size: int = 64
) -> Tensor:
    """H_i = d I_i / d x for some features i of each sample.

    Args:
        scores: the explanation (N, n), made from x with `create_graph=True`.
        x: (N, ...), requires gradients.
        numbers: of features, int64 (N, m).
        create_graph: keep the result differentiable.
        chunk_size: how many features are differentiated at once.

    Returns:
        (N, m, d): d input values per sample.

    >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> jacobian_rows(x**2, x, torch.tensor([[1]]))
    tensor([[[0., 4.]]])
    """
    rows, count = numbers.shape
    if not scores.requires_grad:
        # an explanation that no longer depends on x, such as that of a linear model
        return scores.new_zeros(rows, count, x[0].numel())
    parts = []
    for some in numbers.T.split(chunk_size):
        picks = torch.zeros(len(some), *scores.shape, dtype=scores.dtype, device=scores.device)
        picks = picks.scatter(2, some.unsqueeze(2), 1.0)
        part = torch.autograd.grad(
            scores,
            x,
            picks,
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
            is_grads_batched=True,
        )[0]
        parts.append(picks.new_zeros(len(some), *x.shape) if part is None else part)
    return torch.cat(parts).flatten(start_dim=2).transpose(0, 1)
