"""The dual certificate of networks with one hidden layer: which functionals are positive on a ball."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from r2et.certificates.branching import branched
from r2et.certificates.dual_bounds import Terms, ascended, snapped, started
from r2et.certificates.dual_columns import ColumnTables, ball_of, other_rows
from r2et.certificates.dual_products import Products
from r2et.certificates.parabolas import curved, directions_of
from r2et.enclosure.attributions import Attributions
from r2et.enclosure.ball import Ball
from r2et.enclosure.column_effects import ColumnAttributions
from r2et.enclosure.feature_pairs import FeaturePairs
from r2et.enclosure.network import INPUT, Network
from r2et.enclosure.ranges import INFLATION
from r2et.enclosure.scalar_minima import has_minima
from r2et.enclosure.size import BYTES, COLUMN_PIECES, column_pieces
from r2et.errors import ContradictionError
from r2et.explainers import ColumnEffects, Explainer, Gradient, GradientTimesInput
from r2et.numerics.memory import MOST_BYTES, in_gigabytes

#: steps of ascent with lines alone, and with parabolas too: at radii that were asked for, at trials of a search
STEPS, TRIAL_STEPS = (12, 24), (12, 8)
#: entries of the largest tensor that is kept for a group of functionals
ENTRIES = 2**18
#: how much more is kept for a functional of gradient times input
PRODUCT_PARTS = 16
#: the explanations it is about; a subclass may explain something else
EXPLAINED = (Gradient, GradientTimesInput, ColumnEffects)
#: trial radii of a search, the factor between two while nothing has failed, and how close is close enough
TRIALS, FARTHER, CLOSE = 8, 2.0, 1.02
#: trials along the curve before that, and how far beyond its end
CURVE, BEYOND = 10, 2.0
#: where to begin, as a share of a guess
FAR_BELOW = 0.02
#: of gradient times input each pair of features has minima of its own: with more features they take very long
LONGEST_PRODUCTS = 2**15


def why_not_dual(network: Network, explainer: Explainer) -> str | None:
    """Why the dual bound says nothing about this explanation of a network; None if it does."""
    layer = moving_layer(network)
    if layer is None:
        return f"it is for networks of one hidden layer, and this one has {len(network.layers)}"
    if not has_minima(network.layers[layer].activation):
        return f"layer {network.layers[layer].name!r} is not a function of one number at a time"
    if type(explainer) not in EXPLAINED:
        known = ", ".join(kind.__name__ for kind in EXPLAINED)
        return f"it is for {known}, not for {type(explainer).__name__}"
    features = network.base.shape[1]
    if type(explainer) is GradientTimesInput and features > LONGEST_PRODUCTS:
        most = f"at most {LONGEST_PRODUCTS:,}"
        return f"of gradient times input it takes very long with {features:,} features ({most})"
    asked = BYTES * column_pieces(network, explainer)
    if asked > MOST_BYTES:
        return (
            f"its tables for one input would take about {in_gigabytes(asked)} of memory, more than the "
            f"{in_gigabytes(MOST_BYTES)} that are allowed"
        )
    return None


def moving_layer(network: Network) -> int | None:
    """The number of the layer that moves, where all read the input alone and no two move; None = there is none."""
    if not network.layers or any(set(layer.matrices) != {INPUT} for layer in network.layers):
        return None
    moving = [n for n in range(len(network.layers)) if bool((network.moving[network.blocks[n]] != 0).any())]
    return None if len(moving) > 1 else (moving or [0])[0]


@dataclass(frozen=True)
class Level:
    """The functionals of N inputs on balls of one radius for each input.

    Attributes:
        of: the attributions.
        pairs: the functionals that are to stay positive.
        radius: (N,).
    """

    of: Attributions
    pairs: FeaturePairs
    radius: Tensor

    @cached_property
    def layer(self) -> int:
        """The number of the one layer that moves."""
        layer = moving_layer(self.of.network)
        assert layer is not None
        return layer

    @cached_property
    def ball(self) -> Ball:
        """What the network does on the ball."""
        return ball_of(self.of.network, self.of.points, self.of.head, self.radius)

    @cached_property
    def ends(self) -> Tensor:
        """How far each pre-activation moves, at most, (N, h)."""
        return self.ball.spreads[self.layer] * (1 + INFLATION) + self.of.network.blurs(self.of.x)[self.layer]

    @cached_property
    def tables(self) -> ColumnTables | None:
        """Of effects of columns; None for slopes of the score alone."""
        if not isinstance(self.of, ColumnAttributions):
            return None
        return ColumnTables(self.of, self.ball, self.ends, self.layer)

    def terms(self, rows: Tensor, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> tuple[Terms, Tensor]:
        """Functionals a e_i + b e_j of inputs `rows`, each (F,), and their scale (F,)."""
        if self.of.times_input:
            direct = other_rows(self.of.network, self.layer)
            return Products(self.of, self.ball, self.ends, self.layer, direct).terms(rows, (i, a, j, b))
        terms, scale = self._slopes(rows, i, a, j, b)
        if self.tables is None or not bool(self._discrete(i, j).any()):
            return terms, scale
        return self.tables.onto(terms, scale, rows, (i, a, j, b))

    def _discrete(self, i: Tensor, j: Tensor) -> Tensor:
        """Which functionals are about differences between rows, bool (F,)."""
        if self.tables is None:
            return torch.zeros_like(i, dtype=torch.bool)
        discrete = self.tables.discrete.to(i.device)
        return discrete[i] | discrete[j]

    def together(self, i: Tensor, j: Tensor) -> list[Tensor]:
        """Numbers of functionals (F,) of one kind each, few enough that what is kept for them stays small."""
        discrete = self._discrete(i, j)
        # of gradient times input every neuron has two variables, and two minima for each
        kept = max(self.of.network.frame.shape) * (PRODUCT_PARTS if self.of.times_input else 1)
        size = max(1, ENTRIES // kept)
        small = max(1, size // COLUMN_PIECES)
        plain, tabled = ((discrete == kind).nonzero().squeeze(1) for kind in (False, True))
        return [some for some in (*plain.split(size), *tabled.split(small)) if len(some)]

    def _slopes(self, rows: Tensor, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> tuple[Terms, Tensor]:
        """The part of functionals that is a slope of the score, and its scale (F,)."""
        network, ball, layer = self.of.network, self.ball, self.layer
        directions = self.of.directions
        tangent = directions[i] * a.unsqueeze(1) + directions[j] * b.unsqueeze(1)
        block = network.blocks[layer]
        hidden, pull = tangent[:, block], ball.pulls[layer]
        length = self.of.lengths
        constant = -2 * ball.error[rows] * torch.hypot(a * length[i], b * length[j])
        # where more than two classes trade weights, what multiplies the slopes is in a box
        constant = constant - (hidden.abs() * (pull.radius * ball.slopes[layer].magnitude)[rows]).sum(1)
        direct = other_rows(network, layer)
        if bool(direct.any()):
            there = ball.cotangent.center[:, direct][rows], ball.cotangent.radius[:, direct][rows]
            constant = constant + (tangent[:, direct] * there[0]).sum(1)
            # the sum itself was rounded
            constant = constant - (tangent[:, direct].abs() * (there[1] + 1e-12 * there[0].abs())).sum(1)
        beta = hidden * pull.center[rows]
        largest = beta.abs().amax(1)
        scale = torch.where(largest > 0, largest, 1.0)
        activation, ends = network.layers[layer].activation, self.ends[rows]
        assert activation is not None
        parts = (
            beta / scale.unsqueeze(1),
            ball.inner[layer][rows],
            -ends,
            ends,
            self.radius[rows],
            constant / scale,
        )
        return Terms(activation, network.frame[block], network.lengths[block], *parts), scale

    @cached_property
    def narrow(self) -> Tensor | None:
        """What parabolas are multiplied with, (h, d); None where they are not used."""
        network = self.of.network
        return directions_of(network.frame[network.blocks[self.layer]])

    def certified(self, wanted: Tensor, *, steps: tuple[int, int], budget: int) -> tuple[Tensor, Tensor]:
        """Which of the wanted functionals (N, D) are positive on the balls, and which were seen not to be.

        Args:
            wanted: bool (N, D).
            steps: of ascent for what the first bounds leave open, with lines alone and then with parabolas too.
            budget: cuts of a ball for what the ascent leaves open.
        """
        proven = wanted & (self.by_features() > self.pairs.ties)
        refuted = torch.zeros_like(proven)
        rows, numbers = (wanted & ~proven).nonzero(as_tuple=True)
        i, _, j, _ = self.pairs.at(rows, numbers)
        for some in self.together(i, j):
            row, number = rows[some], numbers[some]
            positive, negative = self._decided(row, number, steps, budget)
            proven[row, number], refuted[row, number] = positive, negative
        return proven, refuted

    def _decided(
        self, rows: Tensor, numbers: Tensor, steps: tuple[int, int], budget: int
    ) -> tuple[Tensor, Tensor]:
        """Which functionals (F,) are positive on the whole ball, and which are not somewhere."""
        terms, scale = self.terms(rows, *self.pairs.at(rows, numbers))
        terms = _less(terms, self.pairs.ties[rows, numbers] / scale)
        proof = ascended(terms, started(terms), steps[0])
        narrow = self.narrow if steps[1] and terms.bendable else None
        if narrow is not None:
            proof = curved(terms, narrow, proof, steps[1])
        return branched(terms, proof, budget, narrow), proof.reached <= 0

    def by_features(self) -> Tensor:
        """Lower bounds of all functionals from those of single features, (N, D)."""
        pairs, k = self.pairs, self.pairs.top.shape[1]
        features = torch.cat([pairs.top, *[pairs.rest] * (2 if pairs.both else 1)], 1)
        signs = torch.ones_like(features, dtype=pairs.sign.dtype)
        signs[:, :k] = pairs.sign
        signs[:, k : k + pairs.rest.shape[1]] = -1
        alone = self._alone(features, signs)
        others = alone[:, k:].unflatten(1, (-1, 1, pairs.rest.shape[1]))
        bounds: Tensor = (alone[:, :k].unsqueeze(1).unsqueeze(3) + others).flatten(1)
        return bounds

    def _alone(self, features: Tensor, signs: Tensor) -> Tensor:
        """Lower bounds of signs * e of single features, (N, S), with slopes from end to end."""
        rows = torch.arange(len(features), device=features.device).unsqueeze(1).expand_as(features).flatten()
        each, factors = features.flatten(), signs.flatten()
        bounds = torch.zeros_like(factors)
        for some in self.together(each, each):
            i, a = each[some], factors[some]
            terms, scale = self.terms(rows[some], i, a, i, torch.zeros_like(a))
            bounds[some] = terms.bound(terms.chord()).value * scale
        return bounds.reshape(features.shape)


def _less(terms: Terms, charge: Tensor) -> Terms:
    """The same functionals less a charge (F,)."""
    return replace(terms, constant=terms.constant - charge)


def radii_among(
    attributions: Attributions,
    pairs: FeaturePairs,
    asked: Sequence[float],
    budget: int,
    *,
    refuted_at: Tensor | None = None,
) -> Tensor:
    """The largest of the asked radii to which each functional is certainly positive, 0 if none, (N, D).

    It is a hair larger than asked: inside of it lies the whole of the ball that was asked about. What is known not
    to be positive somewhere in a ball, bool (R, N, D) by rising radius, needs no work there.
    """
    radii = torch.zeros_like(pairs.values)
    open_ = pairs.values > 0
    for number, radius in enumerate(sorted(asked)):
        hair = pairs.values.new_full((len(radii),), radius * (1 + INFLATION))
        level = Level(attributions, pairs, hair)
        if refuted_at is not None:
            _check_refuted(level, open_ & refuted_at[number], budget)
            open_ = open_ & ~_of_pairs(pairs, refuted_at[number])
        proven, refuted = level.certified(open_, steps=STEPS, budget=budget)
        radii = torch.where(proven, hair.unsqueeze(1), radii)
        open_ = open_ & ~refuted
    return radii


def _of_pairs(pairs: FeaturePairs, some: Tensor) -> Tensor:
    """Some functionals (N, D) with the others of their pairs: of the two none counts without the other."""
    sides = 2 if pairs.both else 1
    both: Tensor = some.unflatten(1, (sides, -1)).any(1).repeat(1, sides)
    return both


def _check_refuted(level: Level, refuted: Tensor, budget: int) -> None:
    """Of the functionals (N, D) that points refute, try to prove the easiest one of each input: it has to fail."""
    values = level.pairs.values
    easiest = torch.where(refuted, values, -torch.inf).argmax(1, keepdim=True)
    wanted = torch.zeros_like(refuted).scatter(1, easiest, refuted.gather(1, easiest))
    wrong = level.certified(wanted, steps=STEPS, budget=budget)[0].any(1)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ContradictionError(
            f"a gap of input {row} of a chunk was proven to stay on the ball of radius "
            f"{float(level.radius[row]):g}, and an attack found a point of it where it is gone: the "
            "certificate is not sound"
        )


def dual_radii(
    attributions: Attributions, pairs: FeaturePairs, known: Tensor, *, budget: int, around: Tensor | None = None
) -> Tensor:
    """Radii (N, D) to which functionals are certainly positive, from known ones on, by trials.

    The first trials are along the whole curve and cheap. Each of the others is halfway, on a scale of logarithms,
    between what is certified and what has failed, for the number of displaced features of which least is known.

    Args:
        attributions: of N inputs.
        pairs: the functionals.
        known: certified radii, (N, D).
        budget: see `certify`.
        around: guesses of limits (N, k), from far below which on to look; None = from those of `known` on.
    """
    search = _Search(attributions, pairs, torch.where(pairs.values > 0, known, 0.0))
    limits = pairs.limits(search.radii) if around is None else around
    for trial in _along_the_curve(limits, 1.0 if around is None else FAR_BELOW).unbind(1):
        search.at(trial, steps=(0, 0), budget=0)
    for _ in range(TRIALS):
        trial = search.next_trial()
        if not bool((trial > 0).any()):
            break
        search.at(trial, steps=TRIAL_STEPS, budget=budget)
    return search.radii


class _Search:
    """What trials have shown so far.

    Attributes:
        radii: certified for each functional, (N, D).
        refuted: radii at which one of a pair was seen not to be positive, (N, D).
        above: radii at which more than m features may have been displaced, (N, k).
    """

    def __init__(self, attributions: Attributions, pairs: FeaturePairs, known: Tensor) -> None:
        self.of, self.pairs, self.radii = attributions, pairs, known
        self.refuted = torch.full_like(known, torch.inf)
        self.above = torch.full_like(pairs.limits(known), torch.inf)

    def at(self, trial: Tensor, *, steps: tuple[int, int], budget: int) -> None:
        """One trial for each input, at radii (N,); 0 = none."""
        column = trial.unsqueeze(1)
        wanted = (self.radii < column) & (self.refuted > column) & (self.pairs.values > 0)
        proven, refuted = Level(self.of, self.pairs, trial).certified(wanted, steps=steps, budget=budget)
        self.radii = torch.where(proven, torch.maximum(self.radii, column), self.radii)
        refuted = _of_pairs(self.pairs, refuted)
        self.refuted = torch.where(refuted, torch.minimum(self.refuted, column), self.refuted)
        if any(steps):
            short = (self.pairs.limits(self.radii) < column) & (column > 0)
            self.above = torch.where(short, torch.minimum(self.above, column), self.above)

    def next_trial(self) -> Tensor:
        """The next radius for each input, 0 where nothing is left to look for, (N,)."""
        limits, above = self.pairs.limits(self.radii), self.above
        usable = (limits > 0) & limits.isfinite()
        trial = torch.where(above.isfinite(), (limits * above).sqrt(), FARTHER * limits)
        doubt = torch.where(usable, (above / limits).clamp_max(FARTHER**2), 0.0)
        # the radius itself first, then the rest of the curve
        doubt[:, 0] = torch.where(doubt[:, 0] > CLOSE, doubt[:, 0] * FARTHER**2, doubt[:, 0])
        # in whole steps, the first of equals: rounding must not choose another one when a row is alone
        order = torch.arange(limits.shape[1], dtype=limits.dtype, device=limits.device)
        which = ((100 * doubt).round() - order / (2 * len(order))).argmax(1, keepdim=True)
        most = doubt.gather(1, which)
        return snapped(torch.where(most > CLOSE, trial.gather(1, which), 0.0).squeeze(1))


def _along_the_curve(limits: Tensor, share: float) -> Tensor:
    """Radii from a share of the smallest limit of an input to beyond its largest, 0 where it has none, (N, T)."""
    usable = (limits > 0) & limits.isfinite()
    start = share * torch.where(usable, limits, torch.inf).amin(1, keepdim=True)
    end = BEYOND * torch.where(usable, limits, 0.0).amax(1, keepdim=True)
    shares = torch.arange(1, CURVE + 1, dtype=limits.dtype, device=limits.device) / CURVE
    return snapped(torch.where(usable.any(1, keepdim=True), start * (end / start) ** shares, 0.0))
