"""Lists of many rows, counted: how alike they are, and the kappa of a P@k."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from r2et.errors import InputError
from r2et.individuality.kappa import Kappa, interval, kappa_of, or_none
from r2et.individuality.overlaps import mean_overlap
from r2et.individuality.reading import read_classes, read_lists, read_precision
from r2et.numerics.memory import at_once
from r2et.numerics.values import check_count, check_flag, check_kind, check_seed, quoted

#: with fewer lists than this in effect, or more overlap between two people, all have one list
FEWEST, MOST_ALIKE = 1.5, 0.95
#: by which no kappa is given
ONE_LIST = "one list for everybody"
#: by which kappa is about classes
LIST_PER_CLASS = "one list for each predicted class"


@dataclass(frozen=True, eq=False)
class Individuality:
    """How alike the lists of N rows are. It merges over shards: no figure depends on how the rows were split.

    `Individuality.of` counts lists. M is 2 for pairs of inputs, each of which has a list of its own, else 1; S is
    in how many situations (radii of an attack, of a proof) the P@k of each row is known. Rows that are alike in
    all of it are one entry; D is how many entries there are.

    Attributes:
        lists: the features that are named, rising, int64 (D, M, k); -1 stands for an empty place, first.
        classes: that are explained, int64 (D,).
        precision: P@k, float64 (D, S).
        rows: how many rows are alike, int64 (D,).
        features: n, of which each list names k, or fewer.
        signed: whether lists may be compared within one explained class only.

    >>> lists = torch.tensor([[0, 1], [1, 0], [0, 2], [2, 3]])
    >>> shared = Individuality.of(lists, features=5)
    >>> shared.distinct, round(shared.overlap, 3), shared.chance
    (3, 0.417, 0.4)
    """

    lists: Tensor = field(repr=False)
    classes: Tensor = field(repr=False)
    precision: Tensor = field(repr=False)
    rows: Tensor = field(repr=False)
    features: int
    signed: bool = False

    @classmethod
    def of(
        cls,
        lists: Tensor,
        features: int | None = None,
        *,
        classes: Tensor | None = None,
        precision: Tensor | None = None,
        signed: bool = False,
    ) -> "Individuality":
        """Count lists.

        Args:
            lists: the features that each of N rows names, in any order, int (N, k), or (N, M, k) for M lists per
                row, with -1 where a list has fewer names; or which of n features are named, bool (N, n) or
                (N, M, n). Two lists share a part of the longer one; without a name both are the same.
            features: n; None for bool lists.
            classes: the class that is explained, int (N,); None = one for all.
            precision: P@k of each row in S situations, (S, N); None = in none.
            signed: the lists are of signed scores, which can be compared within one explained class only.
        """
        check_flag("signed", signed)
        if signed and classes is None:
            raise InputError("signed lists are compared within one explained class: hand over classes")
        named, n = read_lists(lists, features)
        count = len(named)
        known = torch.zeros(count, dtype=torch.int64) if classes is None else read_classes(classes, count)
        values = torch.zeros(count, 0) if precision is None else read_precision(precision, count)
        return cls._counted(named, known, values.double(), torch.ones(count, dtype=torch.int64), n, signed=signed)

    @classmethod
    def _counted(
        cls, lists: Tensor, classes: Tensor, precision: Tensor, rows: Tensor, features: int, *, signed: bool
    ) -> "Individuality":
        """Entries that are alike become one; their order is that of their values, whatever it was before."""
        _, members, k = lists.shape
        # numbers of features are whole, so float64 holds them exactly
        table = torch.cat([classes[:, None].double(), lists.flatten(1).double(), precision], dim=1)
        unique, entry = table.unique(dim=0, return_inverse=True)
        own, named, values = unique.split([1, members * k, precision.shape[1]], dim=1)
        return cls(
            lists=named.long().reshape(-1, members, k),
            classes=own.squeeze(1).long(),
            precision=values,
            rows=torch.zeros(len(unique), dtype=torch.int64).index_add(0, entry, rows),
            features=features,
            signed=signed,
        )

    def merge(self, other: "Individuality") -> "Individuality":
        """Both together, exactly what counting all rows at once gives.

        >>> lists = torch.tensor([[0, 1], [0, 1], [0, 2]])
        >>> whole, *parts = (Individuality.of(part, 4) for part in (lists, lists[:1], lists[1:]))
        >>> parts[0].merge(parts[1]).overlap == whole.overlap
        True
        """
        check_kind("other", other, Individuality, "Individuality.of(lists, 8)")
        here, there = self.lists, other.lists
        if (here < 0).any() or (there < 0).any():
            # the longest list of one part may be shorter than that of another
            most = max(self.k, other.k)
            here, there = (torch.nn.functional.pad(of, (most - of.shape[-1], 0), value=-1) for of in (here, there))
        for what, own, theirs in (
            ("features", self.features, other.features),
            ("names in a list", here.shape[-1], there.shape[-1]),
            ("lists per row", self.members, other.members),
            ("situations", self.precision.shape[1], other.precision.shape[1]),
            ("signed", self.signed, other.signed),
        ):
            if own != theirs:
                raise InputError(
                    f"lists of different kinds cannot be merged: {what} is {own} here, {theirs} there"
                )
        return self._counted(
            torch.cat([here, there]),
            torch.cat([self.classes, other.classes]),
            torch.cat([self.precision, other.precision]),
            torch.cat([self.rows, other.rows]),
            self.features,
            signed=self.signed,
        )

    # --- counts ---------------------------------------------------------------------------------------------

    @property
    def k(self) -> int:
        """The most names in a list."""
        return self.lists.shape[-1]

    @property
    def members(self) -> int:
        """Lists per row."""
        return self.lists.shape[1]

    @property
    def total(self) -> int:
        """How many lists there are, M N."""
        return self.members * int(self.rows.sum())

    @property
    def counts(self) -> Tensor:
        """How many lists name each feature, int64 (n,)."""
        weights = self.rows[:, None, None].expand_as(self.lists)
        named = self.lists >= 0
        return torch.zeros(self.features, dtype=torch.int64).index_add(0, self.lists[named], weights[named])

    def _copies(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Group and number of each distinct list, int64 (L,) each, from the group of each list, (D, M)."""
        table = torch.cat([groups[..., None], self.lists], dim=2).flatten(0, 1)
        unique, entry = table.unique(dim=0, return_inverse=True)
        weights = self.rows.repeat_interleave(self.members)
        return unique[:, 0], torch.zeros(len(unique), dtype=torch.int64).index_add(0, entry, weights)

    @property
    def _groups(self) -> Tensor:
        """Within which lists are compared, int64 (D,)."""
        return self.classes if self.signed else torch.zeros_like(self.classes)

    # --- figures --------------------------------------------------------------------------------------------

    @property
    def distinct(self) -> int:
        """How many different lists there are, as sets; one for two classes is two if signed."""
        return len(self._copies(self._groups[:, None].expand(-1, self.members))[1])

    @cached_property
    def effective(self) -> float:
        """exp(entropy): how many equally frequent lists would be as diverse.

        Of one position if rows have several lists, and of one explained class if signed.
        """
        _, own = self._groups.unique(return_inverse=True)
        groups, copies = self._copies(own[:, None] * self.members + torch.arange(self.members))
        _, place = groups.unique(return_inverse=True)
        sizes = torch.zeros(int(place.max()) + 1, dtype=torch.int64).index_add(0, place, copies)
        shares = copies.double() / sizes[place].double()
        return float((-(copies.double() / self.total) * shares.log()).sum().exp())

    @cached_property
    def overlap(self) -> float:
        """B: the mean P@k between two rows' lists, exact; NaN if no two can be compared.

        Pairs are compared position by position.
        """
        return self._overlap_within(self._groups)

    @property
    def comparable(self) -> bool:
        """Whether there are two rows whose lists can be compared."""
        return not math.isnan(self.overlap)

    @property
    def overlap_in_class(self) -> float:
        """The mean P@k between two lists for the same explained class; NaN if there are no two."""
        return self._overlap_within(self.classes)

    def _overlap_within(self, groups: Tensor) -> float:
        # whole numbers, which float64 adds exactly
        return float(mean_overlap(self.lists, groups, self.rows[None].double(), self.rows.sum()[None].double()))

    @property
    def chance(self) -> float:
        """The mean P@k of two lists of these lengths that name features at random: k / n if all name k."""
        length, which = (self.lists >= 0).sum(-1).unique(return_inverse=True)
        if len(length) == 1 and int(length) > 0:
            return int(length) / self.features
        weights = self.rows[:, None].expand_as(which).flatten().double()
        shares = torch.zeros(len(length), dtype=torch.float64).index_add(0, which.flatten(), weights) / self.total
        shared = torch.minimum(length[:, None], length) / self.features
        both_empty = torch.maximum(length[:, None], length) == 0
        return float(shares @ torch.where(both_empty, 1.0, shared.double()) @ shares)

    @property
    def one_for_everybody(self) -> bool:
        """Whether all have so nearly the same list that there is no kappa."""
        return self.effective < FEWEST or not self.overlap <= MOST_ALIKE

    @property
    def one_per_class(self) -> bool:
        """Whether each of two or more classes has so nearly one list that kappa is about classes, not about rows.

        Classes of a single row do not count. Signed lists are compared within a class anyway.
        """
        if self.signed or self.one_for_everybody or not self.overlap_in_class > MOST_ALIKE:
            return False
        own, place = self.classes.unique(return_inverse=True)
        weights = self.rows.double() * (place == torch.arange(len(own))[:, None])
        sizes = weights.sum(1)
        several = sizes >= 2
        if int(several.sum()) < 2:
            return False
        # most pairs are of the largest class, which is not all rows: classes count by their rows
        within = mean_overlap(self.lists, place, weights[several], sizes[several])
        return float(within @ sizes[several] / sizes[several].sum()) > MOST_ALIKE

    def movable_share(self, movable: Tensor) -> float:
        """The share of the listed features that an attacker can move, from which of all of them, bool (n,)."""
        if not isinstance(movable, Tensor) or movable.dtype != torch.bool or movable.shape != (self.features,):
            raise InputError(f"movable must be a bool tensor ({self.features},), got {quoted(movable)}")
        counts = self.counts
        return int(counts[movable.cpu()].sum()) / max(1, int(counts.sum()))

    def to_dict(self) -> dict[str, Any]:
        """The figures without kappa, as plain JSON values."""
        return {
            "lists": self.total,
            "distinct": self.distinct,
            "effective": self.effective,
            "overlap": or_none(self.overlap),
            "overlap_in_class": or_none(self.overlap_in_class),
            "chance": self.chance,
            "one_list_for_everybody": self.one_for_everybody,
            "one_list_per_class": self.one_per_class,
        }

    # --- kappa ----------------------------------------------------------------------------------------------

    def kappas(self, *, seed: int = 0, resamples: int = 1000) -> tuple[Kappa, ...] | None:
        """Kappa of each of the S situations; None where there is one list for everybody.

        Args:
            seed: of the resampling.
            resamples: of the rows, with replacement; a pair of inputs stays together.

        >>> lists = torch.tensor([[0, 1], [2, 3], [4, 5], [0, 5]])
        >>> everybody = Individuality.of(lists, 6, precision=torch.tensor([[1.0, 1.0, 0.5, 0.5]]))
        >>> round(everybody.kappas()[0].value, 6)
        0.7
        """
        check_seed(seed)
        check_count("resamples", resamples)
        if self.one_for_everybody:
            return None
        if self.precision.shape[1] == 0:
            return ()
        rows = self.rows.double()
        values = kappa_of(rows @ self.precision / rows.sum(), torch.tensor(self.overlap, dtype=torch.float64))
        low, high = interval(self._resampled(resamples, seed))
        return tuple(map(Kappa, values.tolist(), low.tolist(), high.tolist()))

    def _resampled(self, resamples: int, seed: int) -> Tensor:
        """Kappa of each resample and situation, (resamples, S)."""
        generator = torch.Generator().manual_seed(seed)
        count = int(self.rows.sum())
        entry = torch.arange(len(self.rows)).repeat_interleave(self.rows)
        size = at_once(count + self.lists.numel(), copies=4)
        parts = []
        for first in range(0, resamples, size):
            draws = torch.randint(count, (min(size, resamples - first), count), generator=generator)
            times = torch.zeros(draws.shape, dtype=torch.float64)
            times.scatter_add_(1, draws, torch.ones_like(times))
            weights = times.new_zeros(len(draws), len(self.rows)).index_add(1, entry, times)
            overlap = mean_overlap(self.lists, self._groups, weights, times.square().sum(1))
            parts.append(kappa_of(weights @ self.precision / count, overlap[:, None]))
        return torch.cat(parts)
