"""Which certificate there is for lists by contributions, and its limits, chunk after chunk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from r2et import ranking
from r2et.certificates.coalitions import Coalitions, Functionals
from r2et.certificates.contributions import FARTHEST, ContributionLimits
from r2et.enclosure.additive import why_not_additive
from r2et.enclosure.feature_pairs import FeaturePairs
from r2et.enclosure.network import INPUT, Network
from r2et.enclosure.problems import PLAIN_ROWS_AT_ONCE, Reading
from r2et.enclosure.scalar_minima import has_minima
from r2et.errors import ModelError
from r2et.explainers import Contributions
from r2et.numerics.values import check_k
from r2et.scores import score

#: numbers of terms of rows that are worked on together
TERMS_AT_ONCE = 2**20
#: balls of a search, and how close is close enough
TRIALS, CLOSE = 6, 1.02
#: a trial is by this much larger than what is certified, at most
FARTHER = 2.0


@dataclass(frozen=True)
class Named:
    """Lists of a chunk of rows and how far they hold.

    Attributes:
        rows: which rows, as a slice.
        limits: (N, k).
        top: the names of each list, most important first, -1 where it has fewer, int64 (N, k).
        lengths: of the lists, int64 (N,).
        logits: (N, C).
    """

    rows: slice
    limits: Tensor
    top: Tensor
    lengths: Tensor
    logits: Tensor


def why_unproven(network: Network, explainer: Contributions, classes: int) -> str | None:
    """Why there is no certificate of lists by contributions to a score of this network; None if there is one."""
    if classes > 2 and explainer.score != "logit":
        return (
            f"the {explainer.score} of {classes} classes is no sum of logits at all rows that are compared: ask "
            "for Contributions(score='logit')"
        )
    if why_not_additive(network, explainer, classes) is None or why_not_expanded(network) is None:
        return None
    return why_not_expanded(network)


def why_not_expanded(network: Network) -> str | None:
    """Why the sums over sets of columns are not expanded; None if they are."""
    if len(network.layers) != 1:
        return (
            f"contributions are certified for at most one hidden layer, and this network has {len(network.layers)}"
        )
    (layer,) = network.layers
    if set(layer.matrices) != {INPUT} or not has_minima(layer.activation):
        return f"layer {layer.name!r} is not a function of one number at a time"
    if layer.activation is None or not layer.activation.smooth:
        return (
            f"layer {layer.name!r} has hinges, and contributions are certified for smooth ones: "
            "r2et.validate.smooth replaces ReLU"
        )
    return None


class Proofs:
    """Limits of rows of one model.

    Args:
        reading: of the model.
        k: length of the lists.
        additive: whether by the exact certificate of sums over columns.
        radii: at which P@k is wanted; None = the radii themselves are looked for.
    """

    def __init__(self, reading: Reading, k: int, *, additive: bool, radii: Sequence[float] | None) -> None:
        assert isinstance(reading.explainer, Contributions)
        self.reading, self.k, self.additive, self.explainer = reading, k, additive, reading.explainer
        self.radii = None if radii is None else sorted(radii)
        self._of: dict[tuple[float, ...], ContributionLimits | Coalitions] = {}
        check_k(k, len(self.explainer.columns))

    def of(self, direction: Tensor) -> ContributionLimits | Coalitions:
        """What is known of one score for all rows."""
        key = tuple(direction.tolist())
        if key not in self._of:
            if self.additive:
                self._of[key] = ContributionLimits(self._others, direction, self.explainer)
            else:
                self._of[key] = Coalitions(self.reading.network, direction, self.explainer)
        return self._of[key]

    @property
    def _others(self) -> Network:
        """The network where excluded columns stay: of a sum over columns they change no other contribution."""
        network, left_out = self.reading.network, self.explainer.left_out
        if not bool(left_out.any()):
            return network
        kept = ~left_out.to(network.base.device)[self.explainer.columns.owner.to(network.base.device)]
        return network.where(kept if network.movable is None else network.movable & kept)

    def chunks(self, x: Tensor, target: Tensor, chunk_size: int | None) -> Iterator[Named]:
        """Chunk by chunk."""
        x = x.detach().double()
        size = int(chunk_size or self._rows_at_once(x, target))
        for start in range(0, len(x), size):
            yield self._chunk(slice(start, start + size), x, target)

    def _rows_at_once(self, x: Tensor, target: Tensor) -> int:
        if self.additive:
            return PLAIN_ROWS_AT_ONCE
        logits = self.reading.network.logits
        sets = self.of(_directions(target[:1], len(logits.bias), self.explainer, x)[0])
        assert isinstance(sets, Coalitions)
        columns = len(self.explainer.columns)
        sets.check_size((1 if self.explainer.positive else 2) * self.k * columns)
        return max(1, min(PLAIN_ROWS_AT_ONCE, TERMS_AT_ONCE // (len(sets.members) * sets.terms)))

    def _chunk(self, rows: slice, x: Tensor, target: Tensor) -> Named:
        part, label = x[rows], target[rows]
        logits = self.reading.checked_logits(part)
        directions = _directions(label, logits.shape[1], self.explainer, x)
        values = x.new_zeros(len(part), len(self.explainer.columns))
        limits = x.new_zeros(len(part), self.k)
        # two classes are each other's opposite
        mirrored = (label == 0) & (logits.shape[1] == 2) & (self.explainer.score != "logit")
        for direction, own in _alike(torch.where(mirrored.unsqueeze(1), -directions, directions)):
            values[own], limits[own] = self._proven(self.of(direction), part[own], mirrored[own])
        if rows.start == 0:
            self._check_explainer(part[:1], label[:1], values[:1])
        top = ranking.top_k(values, self.k)
        lengths = torch.full_like(label, self.k)
        if self.explainer.positive:
            named = values.gather(1, top) > 0
            top, lengths = top.masked_fill(~named, -1), named.sum(1)
        return Named(rows, limits, top, lengths, logits)

    def _proven(
        self, proof: ContributionLimits | Coalitions, x: Tensor, mirrored: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Contributions (N, columns) to the score, or to its negative, and limits (N, k)."""
        if isinstance(proof, ContributionLimits):
            signs = torch.where(mirrored, -1.0, 1.0).to(x).unsqueeze(1)
            return signs * proof.contributions(x).values, proof(x, self.k, mirrored)
        return Expansion(proof, self.explainer, x, self.k, mirrored).searched(self.radii)

    def _check_explainer(self, x: Tensor, target: Tensor, values: Tensor) -> None:
        """What is certified must be what the explainer says."""
        said = self.explainer.attribute(self.reading.model, x, target).detach()
        size = said.abs().amax() + score(self.explainer.score, self.reading.model(x).detach(), target).abs().amax()
        apart = (said - values).abs().amax()
        if not bool(apart <= 1e-6 * size):
            raise ModelError(
                f"{type(self.reading.model).__name__} has contributions {said[0].tolist()} where its layers, one "
                f'by one, give {values[0].tolist()}: it depends on more than they show; use method="smoothing"'
            )


class Expansion:
    """Lists of N rows by the sums over sets of columns.

    Args:
        of: the sets, of one score.
        explainer: which columns, and which order.
        x: rows (N, n).
        k: length of the lists.
        mirrored: of which rows the score is minus this one, bool (N,).
    """

    def __init__(self, of: Coalitions, explainer: Contributions, x: Tensor, k: int, mirrored: Tensor) -> None:
        self.of, self.x, self.k = of, x, k
        self.known = of.expanded(x)
        signs = torch.where(mirrored, -1.0, 1.0).to(x)
        # what never says anything counts as nobody: its contribution is zero, exactly
        never = explainer.never(x)
        shares = signs[:, None, None] * of.shares * ~never.unsqueeze(1)
        self.values = (self.known.values.unsqueeze(1) @ shares).squeeze(1)
        floor = (self.known.sizes.unsqueeze(1) @ shares.abs()).squeeze(1) * 1e-13
        self.nobody = never
        values = self.values
        if explainer.positive:
            # nobody is worth zero, and comes before a column that is worth as little
            shares, values, floor = (torch.nn.functional.pad(part, (k, 0)) for part in (shares, values, floor))
            self.nobody = torch.nn.functional.pad(never, (k, 0), value=True)
        self.positive = explainer.positive
        self.pairs = FeaturePairs.of(values, k, explainer.positive, floor)
        self._prepare(shares)

    def _prepare(self, shares: Tensor) -> None:
        """The functionals that are looked at, and those that can never turn."""
        count = self.pairs.values.shape[1]
        numbers = torch.arange(count, device=self.x.device).expand(len(self.x), -1)
        i, a, j, b = self.pairs.select(numbers)
        of_pairs = a.unsqueeze(1) * _columns(shares, i) + b.unsqueeze(1) * _columns(shares, j)
        of_pairs = of_pairs.transpose(1, 2)
        slopes = of_pairs @ self.known.slopes
        self.never = torch.zeros_like(i, dtype=torch.bool)
        if self.positive:
            # nobody takes nobody's place, and a column that never says anything takes nobody's
            self.never = self.nobody.gather(1, i) & self.nobody.gather(1, j)
        self.functionals = Functionals(self.of, of_pairs, self.pairs.values, slopes)

    def limits(self, radii: Tensor) -> Tensor:
        """Limits (N, k) from radii of functionals (N, D)."""
        return self.pairs.limits(radii.masked_fill(self.never, torch.inf))

    def searched(self, asked: Sequence[float] | None) -> tuple[Tensor, Tensor]:
        """Contributions (N, columns) and limits (N, k), at least at the asked radii."""
        if not bool(self.of.moving.any()):
            radii = torch.where(self.pairs.values > 0, torch.inf, 0.0).to(self.x)
            return self.values, self.limits(radii)
        radii = torch.zeros_like(self.pairs.values)
        if asked is not None:
            for radius in reversed(asked):
                trial = self.x.new_full((len(self.x),), radius * (1 + 1e-9))
                radii = torch.maximum(radii, self._within(trial.clamp_max(FARTHEST)))
            return self.values, self.limits(radii)
        first = self.limits(self.functionals.first_order()).clamp_max(FARTHEST)
        failed = torch.full_like(first, torch.inf)
        trial = torch.where(first > 0, first, 0.0).amax(1)
        for _ in range(TRIALS):
            radii = torch.maximum(radii, self._within(trial))
            limits = self.limits(radii)
            short = (limits < trial.unsqueeze(1)) & (trial > 0).unsqueeze(1)
            failed = torch.where(short, torch.minimum(failed, trial.unsqueeze(1)), failed)
            trial = _next(limits, failed, first)
            if not bool((trial > 0).any()):
                break
        return self.values, self.limits(radii)

    def _within(self, radius: Tensor) -> Tensor:
        bent = self.of.bent(self.x, radius, self.known)
        return self.functionals.radii_within(bent, radius)


def _columns(shares: Tensor, which: Tensor) -> Tensor:
    """Entries (N, M, D) of shares (N, M, columns)."""
    return shares.gather(2, which.unsqueeze(1).expand(-1, shares.shape[1], -1))


def _next(limits: Tensor, failed: Tensor, first: Tensor) -> Tensor:
    """The next ball for each row, (N,): of the list as a whole first; 0 where nothing is left to look for."""
    # no closer ball than one at which something was left open tells more
    start = torch.where(limits > 0, limits, torch.minimum(first, failed) / 8)
    usable = (first > 0) & (limits < FARTHEST)
    trial = torch.where(failed.isfinite(), (start * failed).sqrt(), FARTHER * start).clamp_max(FARTHEST)
    doubt = torch.where(usable, (failed / start).clamp_max(FARTHER**2), 0.0)
    doubt[:, 0] = torch.where(doubt[:, 0] > CLOSE, doubt[:, 0] * FARTHER**2, doubt[:, 0])
    most, which = doubt.max(1, keepdim=True)
    return torch.where(most > CLOSE, trial.gather(1, which), 0.0).squeeze(1)


def _directions(target: Tensor, classes: int, explainer: Contributions, like: Tensor) -> Tensor:
    """The scores of classes (N,) as combinations of logits, (N, C)."""
    eye = torch.eye(classes, dtype=torch.float64, device=like.device)
    own = eye[target]
    # one output has no other
    return own if explainer.score == "logit" or classes == 1 else own - eye[1 - target]


def _alike(directions: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Each direction that occurs, with the rows that have it."""
    kinds, which = directions.unique(dim=0, return_inverse=True)
    return [(kind, (which == number).nonzero().flatten()) for number, kind in enumerate(kinds)]
