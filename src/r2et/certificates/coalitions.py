"""Contributions to the score of a network with one hidden layer, to second order with enclosed errors.

A contribution is sum_S u_S V_S over sets S of columns, with V_S the mean over the background of the score of a row
that is x on S and the background's elsewhere: a sum over neurons m, sets S and rows b of terms
sigma(z_mSb + w_mS . delta), w_mS the weights of the columns in S. On |y| <= e the average of sigma'' between z and
z + y,

    K(y) = 2 (sigma(z + y) - sigma(z) - sigma'(z) y) / y^2,

lies in an interval, and sigma(z + y) between the two parabolas with its ends as second derivatives. So each
functional has a quadratic function below it on the whole ball, with its own value and slope at x: what it is at
least is a trust-region problem in the numbers that move. Rows of the background move alike: of their intervals the
mean counts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.certificates.trust_region import least_on_balls
from r2et.enclosure.network import INPUT, Network
from r2et.enclosure.ranges import INFLATION, EnclosedActivation, Smooth
from r2et.errors import ModelError
from r2et.explainers import Contributions
from r2et.numerics.memory import MOST_BYTES, in_gigabytes

#: what rounding may take, as a share of the absolute terms of a sum
ROUNDING = 1e-11
#: what the formula of an activation may lose of arguments, as a share of that
LOST = 1e-3
#: numbers of terms (of sets, background rows and neurons) that are worked on together
TOGETHER = 2**16
#: steps of a bisection, on a scale of logarithms, inside a ball
HALVINGS = 8
#: larger than any curvature
BEYOND = 1e300
#: copies that are kept: of a matrix for each set, and of one for each functional
COPIES = 6


@dataclass(frozen=True)
class Expanded:
    """Sets of columns of N rows, to first order.

    Attributes:
        values: V_S, (N, M).
        slopes: by the p features that move, (N, M, p).
        sizes: absolute terms of the values, (N, M).
        steep: absolute terms of slopes, by the lengths of balls, (N, M).
    """

    values: Tensor
    slopes: Tensor
    sizes: Tensor
    steep: Tensor


@dataclass(frozen=True)
class Bent:
    """Second derivatives of the parabolas below and above V_S, (N, M, p p) each, and what is charged, (N, M)."""

    below: Tensor
    above: Tensor
    charge: Tensor


class Coalitions:
    """The sums over sets of columns of one score.

    Args:
        network: with one hidden layer, next to the input.
        direction: the score as a combination of logits, (C,).
        explainer: which columns, background and permutations.
    """

    def __init__(self, network: Network, direction: Tensor, explainer: Contributions) -> None:
        (layer,), logits = network.layers, network.logits
        assert layer.activation is not None
        self.activation: EnclosedActivation = layer.activation
        heights = direction @ logits.matrices[0] if 0 in logits.matrices else direction.new_zeros(len(layer.bias))
        direct = logits.matrices.get(INPUT)
        self.direct = direction.new_zeros(network.base.shape[1]) if direct is None else direction @ direct
        used = heights != 0
        self.heights, self.bias = heights[used], layer.bias[used]
        self.weights = layer.matrices[INPUT][used]
        self.moving = _moving(network)
        coalitions = explainer.coalitions
        owner = explainer.columns.owner
        self.members = coalitions.members[:, owner].to(self.weights)
        #: contributions of columns = values of the sets @ shares, (M, columns)
        self.shares = coalitions.weights.to(self.weights)
        self.background = explainer.background.tensor.to(self.weights)
        self._prepare()

    def _prepare(self) -> None:
        """What balls are multiplied with: weights of features that move, by set."""
        own, inside = self.weights[:, self.moving], self.members[:, self.moving]
        self.own, self.inside = own, inside
        self.lengths = (inside @ own.square().T).sqrt()
        self.outer = (own.unsqueeze(2) * own.unsqueeze(1)).flatten(1)
        self.pairs = (inside.unsqueeze(2) * inside.unsqueeze(1)).flatten(1)
        self.outside = 1 - self.members
        self.terms = len(self.background) * max(1, len(self.weights))

    def parts(self, rows: int) -> list[slice]:
        """Sets that are worked on together."""
        size = max(1, TOGETHER // (rows * self.terms))
        return [slice(start, start + size) for start in range(0, len(self.members), size)]

    def arguments(self, x: Tensor, sets: slice) -> Tensor:
        """Pre-activations of x (N, n) in some sets, (N, M, B, h)."""
        inside = (x.unsqueeze(1) * self.members[sets]) @ self.weights.T
        outside = (self.background * self.outside[sets].unsqueeze(1)) @ self.weights.T
        return (inside.unsqueeze(2) + outside) + self.bias

    def expanded(self, x: Tensor) -> Expanded:
        """At rows x (N, n)."""
        parts = [self._expanded(x, sets) for sets in self.parts(len(x))]
        return Expanded(*(torch.cat(same, 1) for same in zip(*parts, strict=True)))

    def _expanded(self, x: Tensor, sets: slice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        z = self.arguments(x, sets)
        heights, activation = self.heights, self.activation
        value, slope = activation.value(z), activation.slope_at(z)
        members, outside = self.members[sets], self.outside[sets]
        rows = x.unsqueeze(1) * members + outside * self.background.mean(0)
        values = value.mean(2) @ heights + rows @ self.direct
        slopes = (slope.mean(2) * heights) @ self.own * self.inside[sets] + self.inside[sets] * self.direct[
            self.moving
        ]
        large = x.abs().unsqueeze(1) * members + outside * self.background.abs().amax(0)
        steep = slope.abs().mean(2) * heights.abs()
        moved = large @ self.weights.abs().T + self.bias.abs()
        sizes = value.abs().mean(2) @ heights.abs() + (steep * moved).sum(2) + large @ self.direct.abs()
        # a formula of sigma may lose what is far below 1
        sizes = sizes + LOST * (heights.abs() * (1 + moved)).sum(2)
        lengths = self.lengths[sets]
        far = (steep * lengths).sum(2) + (self.inside[sets] * self.direct[self.moving].abs()).sum(1)
        return values, slopes, sizes, far

    def bent(self, x: Tensor, radius: Tensor, known: Expanded) -> Bent:
        """On balls of radii (N,) around rows x (N, n)."""
        radius = radius * (1 + INFLATION)
        parts = [self._bent(x, radius, sets) for sets in self.parts(len(x))]
        below, above, charge = (torch.cat(same, 1) for same in zip(*parts, strict=True))
        return Bent(below, above, charge + ROUNDING * (known.sizes + radius.unsqueeze(1) * known.steep))

    def _bent(self, x: Tensor, radius: Tensor, sets: slice) -> tuple[Tensor, Tensor, Tensor]:
        z = self.arguments(x, sets)
        ends = radius[:, None, None] * self.lengths[sets]
        low, high = (end.mean(2) for end in curvatures(self.activation, z, ends.unsqueeze(2)))
        heights = self.heights
        room = INFLATION * torch.maximum(low.abs(), high.abs())
        least, most = heights * (low - room), heights * (high + room)
        below, above = torch.minimum(least, most), torch.maximum(least, most)
        charge = ROUNDING * (torch.maximum(below.abs(), above.abs()) * ends.square()).sum(2) / 2
        lost = self.activation.value_error(z.amax(2) + ends)
        if lost is not None:
            # at x and at the point that is compared with it
            charge = charge + 2 * lost @ heights.abs()
        pairs = self.pairs[sets]
        return (below @ self.outer) * pairs, (above @ self.outer) * pairs, charge

    def check_size(self, functionals: int) -> None:
        """Refuse what has no room even for one row."""
        p = int(self.moving.sum())
        asked = 8 * COPIES * (p * p * (len(self.members) + functionals) + TOGETHER + self.terms)
        if asked > MOST_BYTES:
            raise ModelError(
                f"a proof for contributions with {p} numbers that move, {len(self.members)} sets of columns and "
                f"{functionals} functionals would take about {in_gigabytes(asked)} of memory for one input, more "
                f"than the {in_gigabytes(MOST_BYTES)} that are allowed: freeze what cannot change, take fewer "
                'permutations (Contributions(pairs=...)) or a smaller k, or use method="smoothing"'
            )


@dataclass(frozen=True)
class Functionals:
    """D functionals of N rows, each a sum over sets of columns, at x.

    Attributes:
        of: the sets, (N, M).
        shares: what each set counts, (N, D, M).
        values: at x, less what counts as a tie, (N, D).
        slopes: (N, D, p).
    """

    of: Coalitions
    shares: Tensor
    values: Tensor
    slopes: Tensor

    def first_order(self) -> Tensor:
        """values / ||slopes||, (N, D)."""
        radii = self.values / self.slopes.norm(dim=2)
        return torch.where(self.values > 0, radii.nan_to_num(nan=torch.inf), 0.0)

    def radii_within(self, bent: Bent, radius: Tensor) -> Tensor:
        """The largest radius, at most that of the ball (N,), to which each is certainly positive, (N, D)."""
        for_more, for_less = self.shares.clamp_min(0), (-self.shares).clamp_min(0)
        bends = for_more @ bent.below - for_less @ bent.above
        # the sum itself was rounded
        sizes = for_more @ bent.below.abs() + for_less @ bent.above.abs()
        p = self.slopes.shape[2]
        bends = bends.unflatten(2, (p, p))
        bends = bends - torch.diag_embed((ROUNDING * sizes).unflatten(2, (p, p)).sum(3))
        values = self.values - (self.shares.abs() @ bent.charge.unsqueeze(2)).squeeze(2)
        far = radius.unsqueeze(1).expand_as(values)
        flat = (part.flatten(0, 1) for part in (values, self.slopes, bends, far))
        radii: Tensor = _farthest(*flat).unflatten(0, values.shape)
        return radii


def _farthest(values: Tensor, slopes: Tensor, bends: Tensor, radius: Tensor) -> Tensor:
    """Radii (F,) up to which values + slopes . d + d^T bends d / 2 is positive, found by halving."""
    found = torch.zeros_like(values)
    rows = ((values > 0) & (radius > 0) & values.isfinite()).nonzero().flatten()
    if not len(rows):
        return found
    values, slopes, bends, radius = (part[rows] for part in (values, slopes, bends, radius))
    whole = values + least_on_balls(slopes, bends, radius) > 0
    own = torch.where(whole, radius, 0.0)
    left = (~whole).nonzero().flatten()
    if len(left):
        own[left] = _halved(values[left], slopes[left], bends[left], radius[left])
    return found.index_copy(0, rows, own)


def _halved(values: Tensor, slopes: Tensor, bends: Tensor, radius: Tensor) -> Tensor:
    length, size = slopes.norm(dim=1), bends.flatten(1).norm(dim=1)
    # the slope and the largest bend together
    low = 2 * values / (length + (length.square() + 2 * size * values).sqrt()).clamp_min(1e-300) * (1 - 1e-9)
    low, high = torch.minimum(low, radius).nan_to_num(nan=0.0), radius
    low = torch.where(values + least_on_balls(slopes, bends, low.clamp_min(1e-300)) > 0, low, 0.0)
    for _ in range(HALVINGS):
        middle = torch.where(low > 0, (low * high).sqrt(), high / 2)
        holds = values + least_on_balls(slopes, bends, middle.clamp_min(1e-300)) > 0
        low, high = torch.where(holds, middle, low), torch.where(holds, high, middle)
    return low


def curvatures(activation: EnclosedActivation, z: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """The range of K(y), the average of sigma'' between z and z + y, over |y| <= ends.

    K is monotone in y where sigma'' is. Where sigma'' has one peak K has at most one, and is smallest at an end:
    K'(y) has the sign of h(y) = int (y - u) u sigma'''(z + u) du, and h'' = y sigma'''(z + y) changes sign once.

    Args:
        activation: sigma.
        z: (..., B, h).
        ends: the same for the B arguments of a neuron, (..., 1, h).

    >>> from r2et.enclosure.activations import Softplus
    >>> at, ends = torch.tensor([[3.0, 0.0]], dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    >>> low, high = curvatures(Softplus(), at, ends)
    >>> (low * 1000).round().tolist(), (high * 1000).round().tolist()
    ([[34.0, 240.0]], [[62.0, 250.0]])
    """
    if not isinstance(activation, Smooth):
        return activation.curvature(z - ends, z + ends)
    at = _At(activation, z, ends)
    (least, most), (low, high) = at.side(-ends), at.side(ends)
    return torch.minimum(least, low), torch.maximum(most, high)


class _At:
    """A smooth activation at arguments z (..., B, h), and what rounding does to averages of its curvature.

    Whole tensors are worked on, without a choice between two for each entry, which takes far longer.
    """

    def __init__(self, activation: Smooth, z: Tensor, ends: Tensor) -> None:
        self.activation, self.z = activation, z
        self.value, self.slope = activation.value(z), activation.slope_at(z)
        self.curvature = activation.bend(z)
        largest = z.abs().amax(-2, keepdim=True) + ends
        size = self.value.abs().amax(-2, keepdim=True) + 4 * self.slope.abs().amax(-2, keepdim=True) * largest
        # a formula of sigma may lose what is far below 1, as z (1 + erf z) / 2 does
        size = size + 1 + largest
        self.error = 4e-15 * size
        lost = activation.value_error(z.amax(-2, keepdim=True) + ends)
        if lost is not None:
            self.error = self.error + 2 * lost

    def side(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """The range of K(y) for y between 0 and `step` (..., 1, h)."""
        there = self.z + step
        end = self.activation.bend(there)
        low, high = torch.minimum(self.curvature, end), torch.maximum(self.curvature, end)
        far = self.activation.value(there)
        half = (step.square() / 2).clamp_min(1e-300)
        average = (far - self.value - self.slope * step) / half
        blur = (self.error + 4e-15 * far.abs().amax(-2, keepdim=True)) / half
        least = torch.minimum(self.curvature, average - blur)
        most = torch.maximum(self.curvature, average + blur)
        low, high, loose_below, loose_above = self._turned(there, low, high)
        return torch.maximum(least - loose_below, low), torch.minimum(most + loose_above, high)

    def _turned(self, there: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, ...]:
        """The range of the curvature from z to `there`, and where the ends of K say nothing of it."""
        left, right = torch.minimum(self.z, there), torch.maximum(self.z, there)
        count = torch.zeros_like(there)
        least, most = low, high
        for turn in self.activation.curvature_turns:
            # what is nearest to the turn, and not beyond the ends
            value = self.activation.bend(left.clamp_min(turn).minimum(right))
            count += (left < turn) & (turn < right)
            least, most = torch.minimum(least, value), torch.maximum(most, value)
        several = count > 1
        loose = ((several | (least < low)).to(low), (several | (most > high)).to(low))
        return least, most, loose[0] * BEYOND, loose[1] * BEYOND


def _moving(network: Network) -> Tensor:
    """Features that move something, bool (n,)."""
    return (network.moving != 0).any(0)
