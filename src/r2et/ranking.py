"""Top-k sets, gaps and pairs of scores. Pure tensor maths: nothing here knows a model.

Throughout, scores are (..., n) and ranking is along the last axis, largest first. Ties go to the feature with
the smaller index, on every device. "Salient" means in the top-k set, "other" means outside of it.
"""

import torch
from torch import Tensor

from r2et.errors import InputError
from r2et.numerics.values import check_count, check_k, is_whole, quoted


def top_k_mask(scores: Tensor, k: int) -> Tensor:
    """Membership in the top-k set, bool (..., n), exactly k true in each row; O(n).

    >>> top_k_mask(torch.tensor([3.0, 1.0, 3.0, 3.0]), k=2)
    tensor([ True, False,  True, False])
    """
    _check_values(scores)
    check_count("k", k)
    if k > scores.shape[-1]:
        raise InputError(f"k must be at most the {scores.shape[-1]} features that are ranked, got k={k}")
    return _mask(scores, k)


def list_mask(scores: Tensor, k: int, *, positive: bool = False) -> Tensor:
    """What a list names, bool (..., n): the top k, or with `positive` those of them whose score is above 0.

    Args:
        scores: (..., n).
        k: most names of a list.
        positive: whether only positive scores are named; a list may have fewer than k names then, or none.

    >>> list_mask(torch.tensor([3.0, -1.0, 0.0, 2.0]), k=3, positive=True)
    tensor([ True, False, False,  True])
    """
    top = top_k_mask(scores, k)
    return top & (scores > 0) if positive else top


def list_precision(list_a: Tensor, list_b: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """P@k of two lists, bool (..., n) each: names in both, divided by the length of the longer one, (...,).

    Two lists without a name are the same list. With k names on both this is `precision_at_k`.

    >>> list_precision(torch.tensor([True, True, False]), torch.tensor([True, False, False]))
    tensor(0.5000)
    """
    _check_lists(list_a=list_a, list_b=list_b)
    longer = torch.maximum(list_a.sum(-1), list_b.sum(-1))
    both = (list_a & list_b).sum(-1).to(dtype)
    return torch.where(longer == 0, 1.0, both / longer.clamp_min(1).to(dtype))


def with_blanks(scores: Tensor, k: int) -> Tensor:
    """Scores (..., n) behind k zeros, (..., k + n): their top k are the places of a list of positive scores.

    A zero among them is an empty place: of equal scores the first one ranks higher, so that a score of 0 is not
    named. Two lists are the same exactly where the top k are, and P@k is 1 - names lost / the longer list.

    >>> top_k_mask(with_blanks(torch.tensor([3.0, -1.0, 0.0, 2.0]), k=3), k=3)
    tensor([ True, False, False,  True, False, False,  True])
    """
    _check_kind(scores)
    check_count("k", k)
    return torch.cat([scores.new_zeros(*scores.shape[:-1], k), scores], dim=-1)


def across_zero(scores: Tensor, named: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """What changes a list that has empty places: pairs of a name and an empty place, the nearest to 0 first.

    A name that falls to 0 gives its place up, and another that rises above takes one.

    Args:
        scores: (..., n).
        named: by the list, bool (..., n), fewer than k of them.
        k: most names of a list, at most n.

    Returns:
        Numbers among scores `with_blanks`, int64 (..., k) each: of what is on the list, and of what is not.

    >>> across_zero(torch.tensor([3.0, -1.0, 0.5]), torch.tensor([True, False, True]), k=3)
    (tensor([5, 0, 3]), tensor([2, 4, 2]))
    """
    _check_kind(scores)
    _check_lists(scores=scores > 0, named=named)
    check_k(k, scores.shape[-1] + 1)
    gap = torch.where(named, scores, -scores)
    near = gap.argsort(dim=-1, stable=True)
    # half of the places for either side, or many columns next to 0 would hide the names
    sides = named.gather(-1, near)
    place = torch.where(sides, sides.cumsum(-1), (~sides).cumsum(-1))
    early = (place > (k + 1) // 2).byte().argsort(dim=-1, stable=True)[..., :k]
    column, own = near.gather(-1, early), sides.gather(-1, early)
    # the first blank has a place on the list, and the last has none if there is a name
    return torch.where(own, column + k, 0), torch.where(own, k - 1, column + k)


def _check_values(scores: Tensor, name: str = "scores") -> None:
    """Scores that can be ranked: a tensor (..., n) of real numbers, none of them NaN."""
    _check_kind(scores, name)
    if scores.is_floating_point() and scores.isnan().any():
        where = tuple(scores.isnan().nonzero()[0].tolist())
        raise InputError(
            f"{name} has {int(scores.isnan().sum())} values that are NaN, the first at "
            f"{name}[{', '.join(map(str, where))}]: they have no rank; look for what gave them"
        )


def _check_kind(scores: Tensor, name: str = "scores") -> None:
    """What can be seen without looking at the values, which a traced training step does not have."""
    if (
        not isinstance(scores, Tensor)
        or scores.layout != torch.strided
        or scores.is_nested
        or scores.is_meta
        or scores.is_quantized
        or scores.ndim < 1
        or scores.numel() == 0
        or scores.is_complex()
        or scores.dtype == torch.bool
    ):
        raise InputError(f"{name} must be a tensor (..., n) of a score for each feature, got {quoted(scores)}")


def _mask(scores: Tensor, k: int) -> Tensor:
    weakest = scores.topk(k, dim=-1, sorted=True).values[..., -1:]
    above = scores > weakest
    tied = scores == weakest
    # torch.topk breaks ties as it likes; the first tied indices fill the remaining places
    places = k - above.sum(-1, keepdim=True)
    return above | (tied & (tied.cumsum(-1) <= places))


def top_k(scores: Tensor, k: int) -> Tensor:
    """Indices of the top-k features, most salient first, int64 (..., k).

    >>> top_k(torch.tensor([3.0, 1.0, 4.0, 3.0]), k=3)
    tensor([2, 0, 3])
    """
    members = top_k_mask(scores, k).nonzero()[:, -1].reshape(*scores.shape[:-1], k)
    order = scores.gather(-1, members).argsort(dim=-1, descending=True, stable=True)
    return members.gather(-1, order)


def order(scores: Tensor) -> Tensor:
    """All features, most salient first, int64 (..., n)."""
    _check_values(scores)
    return scores.argsort(dim=-1, descending=True, stable=True)


def ranks(scores: Tensor) -> Tensor:
    """The rank of each feature, 0 = most salient, int64 (..., n).

    >>> ranks(torch.tensor([3.0, 1.0, 4.0]))
    tensor([1, 2, 0])
    """
    position = order(scores)
    return torch.empty_like(position).scatter_(
        -1, position, torch.arange(scores.shape[-1], device=scores.device).expand_as(position)
    )


def boundary_gap(scores: Tensor, k: int) -> Tensor:
    """The k-th score minus the (k+1)-th, (...,): zero where the top-k set is decided by a tie.

    >>> boundary_gap(torch.tensor([3.0, 1.0, 2.0, 2.0]), k=2)
    tensor(0.)
    """
    _check_values(scores)
    check_k(k, scores.shape[-1])
    best = scores.topk(k + 1, dim=-1, sorted=True).values
    return best[..., k - 1] - best[..., k]


def precision_at_k(scores_a: Tensor, scores_b: Tensor, k: int, *, positive: bool = False) -> Tensor:
    """The share of the top-k features of one explanation that are in the top-k of the other (App. B.1.4).

    Args:
        scores_a: (..., n).
        scores_b: (..., n), the same n.
        k: size of the sets.
        positive: whether lists name positive scores alone, see `list_mask`: then it is the share of the longer
            one, and k may be n.

    Returns:
        (...,), between 0 and 1.

    >>> precision_at_k(torch.tensor([[5.0, 4.0, 1.0]]), torch.tensor([[5.0, 1.0, 4.0]]), k=2)
    tensor([0.5000])
    """
    _check_comparable(scores_a, scores_b)
    if positive:
        return list_precision(
            list_mask(scores_a, k, positive=True), list_mask(scores_b, k, positive=True), scores_a.dtype
        )
    check_k(k, scores_a.shape[-1])
    return overlap(top_k_mask(scores_a, k), top_k_mask(scores_b, k), scores_a.dtype)


def _check_comparable(scores_a: Tensor, scores_b: Tensor) -> None:
    _check_values(scores_a, "scores_a")
    _check_values(scores_b, "scores_b")
    if scores_a.shape[-1] != scores_b.shape[-1]:
        raise InputError(
            f"explanations of {scores_a.shape[-1]} and {scores_b.shape[-1]} features cannot be compared"
        )
    try:
        torch.broadcast_tensors(scores_a, scores_b)
    except RuntimeError:
        shapes = f"{tuple(scores_a.shape)} and {tuple(scores_b.shape)}"
        raise InputError(f"explanations of shapes {shapes} cannot be compared row by row") from None


def overlap(top_a: Tensor, top_b: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The share of members of one set (..., n) that are in another of the same size, (...,)."""
    _check_lists(top_a=top_a, top_b=top_b)
    return (top_a & top_b).sum(-1).to(dtype) / top_a.sum(-1).to(dtype)


def _check_lists(**lists: Tensor) -> None:
    """Two sets of members (..., n)."""
    for name, members in lists.items():
        if not isinstance(members, Tensor) or members.dtype != torch.bool or members.ndim < 1:
            raise InputError(f"{name} must be a bool tensor (..., n) of members, got {quoted(members)}")
    one, other = (members.shape[-1] for members in lists.values())
    if one != other:
        raise InputError(f"sets of {one} and {other} features cannot be compared")


def rank_correlation(scores_a: Tensor, scores_b: Tensor) -> Tensor:
    """Spearman's rank correlation with average ranks for ties, (...,).

    >>> rank_correlation(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([30.0, 10.0, 20.0]))
    tensor(0.5000)
    """
    _check_comparable(scores_a, scores_b)
    a, b = _average_ranks(scores_a), _average_ranks(scores_b)
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


def _average_ranks(scores: Tensor) -> Tensor:
    ascending = scores.contiguous().sort(dim=-1).values
    first = torch.searchsorted(ascending, scores.contiguous(), side="left")
    last = torch.searchsorted(ascending, scores.contiguous(), side="right")
    # numbers of features do not fit into 8 or 16 bits
    return (first + last).to(scores.dtype if scores.dtype == torch.float64 else torch.float32) / 2


def all_pair_weights(scores: Tensor, k: int) -> Tensor:
    """Weights w (..., n) with sum(w * scores) = mean gap over all k(n-k) pairs of a salient and another feature.

    The paper's weights (Sec. 4.2: n-k for a salient feature, -k for another), divided by k(n-k).

    >>> all_pair_weights(torch.tensor([9.0, 1.0, 2.0, 7.0]), k=2)
    tensor([ 0.5000, -0.5000, -0.5000,  0.5000])
    """
    _check_kind(scores)
    check_k(k, scores.shape[-1])
    top = _mask(scores.detach(), k)
    return torch.where(top, scores.new_full((), 1 / k), -1 / (scores.shape[-1] - k))


def boundary_pair_weights(scores: Tensor, k: int, pairs: int | None = None) -> Tensor:
    """Weights (..., n) of the mean gap over the pairs (k-i+1, k+i) of ranks, i = 1..pairs (the paper's -mm).

    `pairs=None` takes as many as there are: min(k, n-k).

    >>> boundary_pair_weights(torch.tensor([9.0, 7.0, 5.0, 3.0, 1.0]), k=2, pairs=1)
    tensor([ 0.,  1., -1.,  0.,  0.])
    """
    _check_kind(scores)
    n = scores.shape[-1]
    check_k(k, n)
    most = min(k, n - k)
    count = most if pairs is None else pairs
    if not is_whole(count) or not 1 <= count <= most:
        raise InputError(
            f"boundary_pairs must lie between 1 and {most} for k={k} and {n} features, got {quoted(count)}"
        )
    scores = scores.detach()
    salient = _mask(scores, k)
    strongest = _mask(scores, k - count) if count < k else torch.zeros_like(salient)
    contenders = _mask(scores, k + count)
    weights = torch.where(salient & ~strongest, scores.new_full((), 1 / count), 0.0)
    return torch.where(contenders & ~salient, -1 / count, weights)


def average_precision_weights(scores: Tensor, k: int) -> Tensor:
    """Weights (..., n) of the average-precision thickness: the mean of the top-j gaps, j = 1..k (Sec. 4.1)."""
    _check_values(scores)
    n = scores.shape[-1]
    check_k(k, n)
    sizes = torch.arange(1, k + 1, device=scores.device, dtype=scores.dtype)
    inside, outside = 1 / sizes, 1 / (n - sizes)
    # rank r (from 0) is inside the sets of size r+1..k and outside the smaller ones
    by_rank = torch.full((n,), -float(outside.sum()), device=scores.device, dtype=scores.dtype)
    by_rank[:k] = inside.flip(0).cumsum(0).flip(0) - torch.cat([outside.new_zeros(1), outside.cumsum(0)[:-1]])
    return (by_rank / k)[ranks(scores.detach())]


def dcg_weights(scores: Tensor, k: int) -> Tensor:
    """Weights (..., n) of the DCG thickness: a pair of ranks (i, j) counts 1 / log(j-i+1) (Sec. 4.1)."""
    _check_values(scores)
    n = scores.shape[-1]
    check_k(k, n)
    distance = torch.arange(2, n + 1, device=scores.device, dtype=scores.dtype)
    # total[m] = sum of 1/log(q) for q = 2..m, so that a row of the pair table is a difference of two entries
    total = torch.cat([distance.new_zeros(2), (1 / distance.log()).cumsum(0)])
    rank = torch.arange(1, n + 1, device=scores.device)
    salient, other = rank[:k], rank[k:]
    by_rank = torch.cat([total[n - salient + 1] - total[k - salient + 1], total[other - k] - total[other]])
    return by_rank[ranks(scores.detach())]


def fraction_in_order(scores: Tensor, top: Tensor) -> Tensor:
    """The share of the k(n-k) pairs in which the salient feature scores at least as high as the other, (...,).

    Only the features that beat the weakest salient one are counted against the sorted salient scores, so that the
    cost is O(n + m log k) for m such features.

    Args:
        scores: (..., n).
        top: indices of the salient features, int64 (..., k).

    >>> fraction_in_order(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0, 1]))
    tensor(0.5000)
    """
    _check_values(scores)
    n = scores.shape[-1]
    if not isinstance(top, Tensor) or top.dtype != torch.int64 or top.ndim < 1:
        raise InputError(f"top must be an int64 tensor (..., k) of features, got {quoted(top)}")
    k = top.shape[-1]
    check_k(k, n)
    flat = scores.reshape(-1, n)
    members = top.expand(*scores.shape[:-1], k).reshape(-1, k)
    salient = flat.gather(1, members).sort(dim=1).values
    rows, columns = _above(flat, salient[:, :1])
    counts = torch.bincount(rows, minlength=len(flat))
    place = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    above = flat.new_full((len(flat), int(counts.max())), -torch.inf)
    above[rows, place] = flat[rows, columns]

    def beaten(by: Tensor) -> Tensor:
        return torch.searchsorted(salient, by, side="left").sum(-1)

    # the salient features among them beat each other; what is left was lost to other features
    flipped = (beaten(above) - beaten(salient)).to(scores.dtype)
    return (1 - flipped / (k * (n - k))).reshape(scores.shape[:-1])


def _above(values: Tensor, bound: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the values (N, n) above their row's bound (N, 1), in the order of the rows.

    Few of many values are: only blocks whose maximum is above the bound are looked into.
    """
    width = 256
    whole = values.shape[1] // width * width
    blocks = values[:, :whole].reshape(len(values), -1, width)
    row, block = (blocks.amax(-1) > bound).nonzero(as_tuple=True)
    place, inner = (blocks[row, block] > bound[row]).nonzero(as_tuple=True)
    rest_row, rest_column = (values[:, whole:] > bound).nonzero(as_tuple=True)
    rows = torch.cat([row[place], rest_row])
    columns = torch.cat([block[place] * width + inner, rest_column + whole])
    by_row = rows.argsort(stable=True)
    return rows[by_row], columns[by_row]
