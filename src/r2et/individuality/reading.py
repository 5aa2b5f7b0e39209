"""Lists, classes and P@k as people hand them over, checked."""

import torch
from torch import Tensor

from r2et.errors import InputError
from r2et.numerics.values import check_count, quoted


def read_lists(lists: Tensor, features: int | None) -> tuple[Tensor, int]:
    """Rising numbers of features (N, M, k), empty places (-1) first, and n."""
    if not isinstance(lists, Tensor) or lists.ndim not in (2, 3) or lists.numel() == 0:
        raise InputError(f"lists must be a tensor (N, k) of the features that each row names, got {quoted(lists)}")
    _check_dense("lists", lists)
    if lists.is_floating_point() or lists.is_complex():
        raise InputError(f"lists must be whole numbers of features, or bool (N, n), got {quoted(lists)}")
    by_member = lists.detach().cpu() if lists.ndim == 3 else lists.detach().cpu().unsqueeze(1)
    if by_member.dtype == torch.bool:
        if features not in (None, by_member.shape[-1]):
            raise InputError(f"lists have {by_member.shape[-1]} features, got features={quoted(features)}")
        return _named(by_member), by_member.shape[-1]
    if features is None:
        raise InputError("features must say how many there are, of which each list names some, got features=None")
    check_count("features", features)
    rising = by_member.long().sort(dim=-1).values
    if int(rising.min()) < -1 or int(rising.max()) >= features:
        raise InputError(
            f"lists must name features from 0 to {features - 1}, or -1 for none, got {int(rising.min())} to "
            f"{int(rising.max())}"
        )
    if bool(((rising.diff(dim=-1) == 0) & (rising[..., 1:] >= 0)).any()):
        raise InputError("lists must name a feature once: one of them names it twice")
    return rising, int(features)


def _named(masks: Tensor) -> Tensor:
    """Rising numbers of features (N, M, k) from masks (N, M, n); k is the length of the longest list."""
    n = masks.shape[-1]
    longest = max(1, int(masks.sum(-1).max()))
    numbers = torch.where(masks, torch.arange(n), -1)
    return numbers.sort(dim=-1).values[..., n - longest :]


def read_classes(classes: Tensor, count: int) -> Tensor:
    """Class numbers, int64 (N,)."""
    whole = isinstance(classes, Tensor) and not classes.is_floating_point() and not classes.is_complex()
    if not whole or classes.shape != (count,):
        raise InputError(f"classes must be a tensor ({count},) of class numbers, got {quoted(classes)}")
    _check_dense("classes", classes)
    return classes.detach().cpu().long()


def read_precision(precision: Tensor, count: int) -> Tensor:
    """P@k by row, float64 (N, S)."""
    if not isinstance(precision, Tensor) or precision.ndim != 2 or precision.shape[1] != count:
        raise InputError(f"precision must be a tensor (S, {count}) of P@k, got {quoted(precision)}")
    _check_dense("precision", precision)
    if precision.is_complex() or precision.dtype == torch.bool:
        raise InputError(f"precision must be real numbers between 0 and 1, got {precision.dtype}")
    values = precision.detach().cpu().double()
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise InputError(f"precision must lie between 0 and 1, got {quoted(precision)}")
    return values.T


def _check_dense(name: str, values: Tensor) -> None:
    if values.layout != torch.strided:
        raise InputError(f"{name} must be a dense tensor, got {values.layout}: hand over {name}.to_dense()")
