"""The mean P@k between the lists of two rows, by counting."""

import torch
from torch import Tensor


def mean_overlap(lists: Tensor, groups: Tensor, weights: Tensor, alone: Tensor) -> Tensor:
    """B of R samples, (R,); NaN where no two rows can be compared.

    With c_f lists of k names each that name f it is sum_f c_f (c_f - 1) / (k N (N - 1)). Of lists of different
    lengths a and b the longer one counts: 1 / max(a, b) is a sum over t >= a, b of 1/t - 1/(t+1), so that for each
    length t that occurs the lists up to it are counted, c_f(t), and the squares are added up with these weights.

    Rows are compared within a group, and position by position: the two lists of a pair are no two people's.

    Args:
        lists: int64 (D, M, k), -1 for an empty place.
        groups: int64 (D,).
        weights: how often each entry is in a sample, (R, D).
        alone: in how many pairs a row would meet itself, (R,): one that was drawn twice is no second person.
    """
    members = lists.shape[1]
    _, place = groups.unique(return_inverse=True)
    compared = place[:, None] * members + torch.arange(members)
    sizes = weights.new_zeros(len(weights), int(place.max()) + 1).index_add(1, place, weights)
    pairs = members * (sizes.square().sum(1) - alone)
    return (_shared(lists, compared, weights) - members * alone) / pairs


def _shared(lists: Tensor, compared: Tensor, weights: Tensor) -> Tensor:
    """The sum of the P@k of all pairs of lists of R samples, each with itself too, (R,).

    Args:
        lists: int64 (D, M, k).
        compared: within which of these numbers lists are compared, int64 (D, M).
        weights: (R, D).
    """
    length = (lists >= 0).sum(-1)
    total = weights.new_zeros(len(weights))
    without = length == 0
    if without.any():
        # two lists without a name are the same
        total = _squares(compared[without], without.nonzero()[:, 0], weights)
    occurring = length[~without].unique().tolist()
    entry = torch.arange(len(lists))[:, None, None].expand_as(lists)
    cell = compared[..., None] * (int(lists.max()) + 1) + lists
    for number, most in enumerate(occurring):
        counted = (lists >= 0) & (length <= most)[..., None]
        share = 1 / most - (1 / occurring[number + 1] if number + 1 < len(occurring) else 0)
        total = total + share * _squares(cell[counted], entry[counted], weights)
    return total


def _squares(cell: Tensor, entry: Tensor, weights: Tensor) -> Tensor:
    """The sum over cells of the squared weight of what is in them, (R,).

    Args:
        cell: numbers of cells, int64 (m,).
        entry: whose weight is in it, int64 (m,).
        weights: (R, D).
    """
    _, number = cell.unique(return_inverse=True)
    shape = (int(number.max()) + 1, weights.shape[1])
    ones = torch.ones(len(number), dtype=torch.float64)
    inside = torch.sparse_coo_tensor(torch.stack([number, entry]), ones, shape, check_invariants=True)
    named: Tensor = inside @ weights.T.contiguous()
    return named.square().sum(0)
