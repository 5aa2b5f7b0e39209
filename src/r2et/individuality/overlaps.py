"""The mean P@k between the lists of two rows, by counting."""

import torch
from torch import Tensor


def mean_overlap(lists: Tensor, groups: Tensor, weights: Tensor, alone: Tensor) -> Tensor:
    """B of R samples, (R,): sum_f c_f (c_f - 1) / (k N (N - 1)); NaN where no two rows can be compared.

    Rows are compared within a group, and position by position: the two lists of a pair are no two people's.

    Args:
        lists: int64 (D, M, k).
        groups: int64 (D,).
        weights: how often each entry is in a sample, (R, D).
        alone: in how many pairs a row would meet itself, (R,): one that was drawn twice is no second person.
    """
    count, members, k = lists.shape
    _, place = groups.unique(return_inverse=True)
    compared = place[:, None] * members + torch.arange(members)
    _, cell = (compared[..., None] * (int(lists.max()) + 1) + lists).flatten().unique(return_inverse=True)
    entry = torch.arange(count).repeat_interleave(members * k)
    ones = torch.ones(len(cell), dtype=torch.float64)
    shape = (int(cell.max()) + 1, count)
    named_by = torch.sparse_coo_tensor(torch.stack([cell, entry]), ones, shape, check_invariants=True)
    named = named_by @ weights.T.contiguous()
    sizes = weights.new_zeros(len(weights), int(place.max()) + 1).index_add(1, place, weights)
    pairs = members * (sizes.square().sum(1) - alone)
    return (named.square().sum(0) / k - members * alone) / pairs
