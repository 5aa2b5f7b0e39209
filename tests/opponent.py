"""An independent judge of attacks: a strong search on nets of one hidden layer, from closed forms alone.

It shares nothing with `r2et`: explanations, their derivatives, rankings and search are written down here again, in
float64, so that an attack of the library that is too kind has somebody to be compared with.

With z = W1 x + b1, logits u = W2 sigma(z) + b2, w = softmax of u over the classes j != c and r = W2^T (e_c - w),
the log-odds s_c = u_c - logsumexp_{j != c} u_j have the gradient g = W1^T (r * sigma'(z)), and its derivative
times v is W1^T (r * sigma''(z) * y + sigma'(z) * W2^T psi W2 (sigma'(z) * y)), y = W1 v, psi = -(diag w - w w^T).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

#: nn.Softplus is linear where beta z is above this
THRESHOLD = 20.0
#: from this sharpness on, slopes come from softer copies of the net
SHARP = 30.0
#: sharpness of the copies, one after the other over the steps of a run
GUIDES = ((3.0, 10.0, 30.0), (10.0, 30.0, 100.0), (1.0, 3.0))
TRAINING_ROWS, AT_THE_INPUT, MOMENTUM, MARGIN, REST = 16, 6, 0.3, 0.02, 0.1
HOP_NOISE, HOP_SCALES = 0.3, (0.3, 0.6, 0.15, 1.0)
#: rows that are searched at the same time: what they need stays in the cache of a processor
ROWS_TOGETHER = 40
#: of one ball for all rows, or of a ball for each of them (N,)
Radius = float | Tensor


@dataclass(frozen=True, eq=False)
class Net:
    """W2 sigma(W1 x + b1) + b2 with sigma = softplus(beta), or ReLU where beta is infinite.

    Args:
        w1, b1: (h, n), (h,).
        w2, b2: (C, h), (C,).
        beta: sharpness.
    """

    w1: Tensor
    b1: Tensor
    w2: Tensor
    b2: Tensor
    beta: float

    @classmethod
    def of(cls, module: nn.Module) -> "Net":
        """Read Linear, ReLU or Softplus, Linear."""
        first, activation, last = module.children()
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        if isinstance(activation, nn.Softplus):
            assert activation.threshold == THRESHOLD
            beta = float(activation.beta)
        else:
            assert isinstance(activation, nn.ReLU)
            beta = math.inf
        weights = (part.detach().double() for part in (first.weight, first.bias, last.weight, last.bias))
        return cls(*weights, beta)

    def without_sum_gauge(self, groups: Sequence[Sequence[int]]) -> "Net":
        """The net after A x = P x + c: P centres each group of features, c = 1 / their number.

        On valid rows, whose groups sum to 1, it is the same net.
        """
        w1, b1 = self.w1.clone(), self.b1.clone()
        for group in map(list, groups):
            mean = self.w1[:, group].mean(1)
            w1[:, group] -= mean[:, None]
            b1 += mean
        return replace(self, w1=w1, b1=b1)

    def hidden(self, x: Tensor) -> Tensor:
        """z (..., h)."""
        return x @ self.w1.T + self.b1

    def logits(self, x: Tensor) -> Tensor:
        """(..., C)."""
        z = self.hidden(x)
        return _value(z, self.beta) @ self.w2.T + self.b2

    def log_odds_gradient(self, x: Tensor, target: Tensor) -> Tensor:
        """The gradient (..., n) of s_c, c = target (...)."""
        r, _ = self.outgoing(self.logits(x), target)
        return (r * _slope(self.hidden(x), self.beta)) @ self.w1

    def outgoing(self, u: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """r (..., h), and w, the softmax over the other classes (..., C), at logits u."""
        own = torch.zeros_like(u).scatter_(-1, target[..., None], 1.0)
        w = 1 - own if u.shape[-1] == 2 else u.masked_fill(own.bool(), -torch.inf).softmax(-1)
        return (own - w) @ self.w2, w

    def turned(self, v: Tensor, parts: tuple[Tensor, Tensor, Tensor, Tensor], w1: Tensor) -> Tensor:
        """The Hessian of s_c times v (..., n), from r, w, sigma', sigma'' and W1, in the order of v."""
        r, w, slope, curve = parts
        y = v @ w1.mT
        back = r * curve * y
        if len(self.w2) > 2:
            t = (slope * y) @ self.w2.T
            back += slope * ((w * ((w * t).sum(-1, keepdim=True) - t)) @ self.w2)
        return back @ w1


def _value(z: Tensor, beta: float | Tensor) -> Tensor:
    if isinstance(beta, float):
        return z.clamp(min=0) if math.isinf(beta) else nn.functional.softplus(z, beta, THRESHOLD)
    return nn.functional.softplus(z * beta) / beta


def _slope(z: Tensor, beta: float | Tensor) -> Tensor:
    if isinstance(beta, float) and math.isinf(beta):
        return (z > 0).to(z.dtype)
    t = beta * z
    return t.sigmoid().masked_fill_(t > THRESHOLD, 1.0)


@dataclass(frozen=True)
class Effort:
    """How hard to search.

    Args:
        k: size of the list.
        seed: of all random draws.
        restarts, steps: searches per row and radius, and their length.
        hops: rounds of further searches of the same length, from around the best point.
        hop_restarts: searches of each such round.
    """

    k: int
    seed: int = 0
    restarts: int = 64
    steps: int = 100
    hops: int = 8
    hop_restarts: int = 64


@dataclass(frozen=True, eq=False)
class Verdict:
    """The worst inputs found inside a ball.

    Args:
        radius: of the ball, or of the ball of each row (N,).
        x: inputs (N, n), float64; the original where nothing was displaced.
        precision: P@k (N,).
    """

    radius: Radius
    x: Tensor
    precision: Tensor


def judge(
    module: nn.Module,
    x: Tensor,
    train: Tensor,
    *,
    radii: Sequence[Radius],
    effort: Effort,
    groups: Sequence[Sequence[int]] = (),
) -> list[Verdict]:
    """The smallest P@k that the search finds for each input and radius; predictions stay as they are.

    Args:
        module: Linear, ReLU or Softplus, Linear.
        x: inputs (N, n).
        train: rows (M, n) towards which 16 of the restarts begin.
        radii: of L2 balls, one for all rows or one for each (N,), in increasing order; what is found in one counts
            in the ones after it.
        effort: k, seed, restarts, steps, hops.
        groups: features whose sum stays as it is, two or more each.
    """
    net = Net.of(module).without_sum_gauge(groups)
    inputs, towards = x.detach().double(), train.detach().double()
    parts = [
        _Search(net, part, towards, groups, replace(effort, seed=effort.seed * 100_003 + number)).verdicts(
            [_of_part(radius, number) for radius in radii]
        )
        for number, part in enumerate(inputs.split(ROWS_TOGETHER))
    ]
    return [
        Verdict(radius, torch.cat([v.x for v in verdicts]), torch.cat([v.precision for v in verdicts]))
        for radius, *verdicts in zip(radii, *parts, strict=True)
    ]


def _of_part(radius: Radius, number: int) -> Radius:
    """The radius for a part of the rows, (M, 1, 1) where rows have their own."""
    if isinstance(radius, float):
        return radius
    return torch.as_tensor(radius, dtype=torch.float64).split(ROWS_TOGETHER)[number][:, None, None]


class _Search:
    """The search around some rows, R restarts for each of N rows.

    Inside, the features of each row stand in the order of its own list, so that the salient ones come first, and
    points are told by their distance from the row, delta (N, R, n).
    """

    def __init__(
        self, net: Net, x: Tensor, train: Tensor, groups: Sequence[Sequence[int]], effort: Effort
    ) -> None:
        self.net, self.x, self.train, self.groups, self.effort = net, x, train, groups, effort
        self.generator = torch.Generator().manual_seed(effort.seed)
        self.target = net.logits(x).argmax(1)
        gradient = net.log_odds_gradient(x, self.target)
        self.order = gradient.abs().argsort(dim=1, descending=True, stable=True)
        self.delta = torch.zeros_like(x)
        self.displaced = torch.zeros(len(x), dtype=torch.long)
        # all pairs of weights and guides occur among six restarts in a row
        number = torch.arange(max(effort.restarts, effort.hop_restarts))
        self.uniform = (number % 2 == 0)[:, None]
        self.schedule = number // 2 % len(GUIDES)

    def verdicts(self, radii: Sequence[Radius]) -> Iterator[Verdict]:
        for radius in radii:
            self.round(self.starts(radius), radius, 1.0)
            for hop in range(self.effort.hops):
                self.round(self.hop(radius), radius, HOP_SCALES[hop % len(HOP_SCALES)])
            yield Verdict(radius, self.x + self.delta, 1 - self.displaced.double() / self.effort.k)

    def directions(self, *shape: int) -> Tensor:
        """Random unit vectors that keep the sums of the groups."""
        drawn = torch.randn(*shape, generator=self.generator, dtype=torch.float64)
        return unit(centred(drawn, self.groups))

    def lengths(self, *shape: int) -> Tensor:
        return torch.rand(*shape, 1, generator=self.generator, dtype=torch.float64)

    def starts(self, radius: Radius) -> Tensor:
        """At x, in the ball, on the sphere and at projected training rows."""
        (rows, n), restarts = self.x.shape, self.effort.restarts
        towards, still = min(TRAINING_ROWS, restarts // 4), min(AT_THE_INPUT, restarts // 4)
        drawn = restarts - towards - still
        delta = torch.zeros(rows, restarts, n, dtype=torch.float64)
        delta[:, still : still + drawn] = radius * self.directions(rows, drawn, n)
        # uniform in a ball of as many dimensions as may move
        free = n - len(self.groups)
        delta[:, still : still + drawn // 2] *= self.lengths(rows, drawn // 2) ** (1 / free)
        chosen = torch.randint(len(self.train), (rows, towards), generator=self.generator)
        delta[:, still + drawn :] = self.train[chosen] - self.x[:, None]
        return delta

    def hop(self, radius: Radius) -> Tensor:
        """Around the best point of each row."""
        (rows, n), restarts = self.x.shape, self.effort.hop_restarts
        length = HOP_NOISE * radius * self.lengths(rows, restarts)
        return self.delta[:, None] + length * self.directions(rows, restarts, n)

    def round(self, delta: Tensor, radius: Radius, scale: float) -> None:
        """All steps of all restarts from delta, for the rows that have something left to lose."""
        left = (self.displaced < self.effort.k).nonzero().squeeze(1)
        if not len(left):
            return
        radius = radius[left] if isinstance(radius, Tensor) else radius
        ball = _Ball(self, left, delta.shape[1])
        order = self.order[left, None].expand(len(left), *delta.shape[1:])
        delta, steps = delta[left].gather(-1, order), self.effort.steps
        velocity = torch.zeros_like(delta)
        for step in range(steps):
            delta = into_ball(delta, radius)
            velocity = velocity.mul_(MOMENTUM).add_(unit(ball.look(delta, self.guide(step, delta.shape[1]))))
            length = scale * radius / 2 * (1 + math.cos(math.pi * step / steps)) / 2
            delta = delta.sub_(unit(velocity).mul_(length))
        ball.look(into_ball(delta, radius), None)
        self.displaced[left] = ball.displaced
        self.delta[left] = torch.zeros_like(ball.best).scatter_(-1, self.order[left], ball.best)

    def guide(self, step: int, restarts: int) -> Tensor | None:
        """The sharpness of the copies from which slopes come, for each restart (R, 1); None: the net itself."""
        if self.net.beta < SHARP:
            return None
        now = [guide[step * len(guide) // self.effort.steps] for guide in GUIDES]
        return torch.tensor(now, dtype=torch.float64)[self.schedule[:restarts], None]


class _Ball:
    """What a round knows of the M rows that it attacks."""

    def __init__(self, search: _Search, rows: Tensor, restarts: int) -> None:
        self.k, self.uniform, self.net = search.effort.k, search.uniform[:restarts], search.net
        self.z = self.net.hidden(search.x[rows])[:, None]
        self.target = search.target[rows, None].expand(len(rows), restarts)
        self.w1 = self.net.w1[:, search.order[rows]].transpose(0, 1)
        self.displaced = search.displaced[rows]
        self.best = search.delta[rows].gather(-1, search.order[rows])

    def look(self, delta: Tensor, guide: Tensor | None) -> Tensor:
        """Judge points (M, R, n) on the net; the slopes of the loss there, by the guides if there are any."""
        net, z = self.net, (delta @ self.w1.mT).add_(self.z)
        u = _value(z, net.beta) @ net.w2.T + net.b2
        slope = _slope(z, net.beta)
        r, w = net.outgoing(u, self.target)
        g = (r * slope) @ self.w1
        pairs = _Pairs.of(g, self.k)
        kept = u.argmax(-1) == self.target
        self.remember(delta, pairs.lost * kept)
        if guide is not None:
            slope = _slope(z, guide)
            if len(net.w2) > 2:
                r, w = net.outgoing(_value(z, guide) @ net.w2.T + net.b2, self.target)
            g = (r * slope) @ self.w1
            pairs = _Pairs.of(g, self.k)
        curve = (slope - slope * slope) * (net.beta if guide is None else guide)
        return net.turned(self.loss_slopes(g, pairs), (r, w, slope, curve), self.w1)

    def remember(self, delta: Tensor, lost: Tensor) -> None:
        most, which = lost.max(1)
        (better,) = (most > self.displaced).nonzero(as_tuple=True)
        self.best[better] = delta[better, which[better]]
        self.displaced[better] = most[better]

    def loss_slopes(self, g: Tensor, pairs: "_Pairs") -> Tensor:
        """The derivative (M, R, n) by g of the loss of the next feature, on |g| / ||g||_1.

        With b features lost so far and q = b + 1: w_p relu(p-th weakest salient - p-th strongest other + margin),
        summed over p = 1..q; the weights are 1 at q and 0.1 at all, or all the same.
        """
        aim = (self.displaced + 1).clamp(max=pairs.gap.shape[-1])[:, None, None]
        number = torch.arange(1, pairs.gap.shape[-1] + 1)
        among = (number <= aim).double()
        weights = torch.where(self.uniform, among / aim, REST * among + (number == aim))
        largest, top = g.abs().max(-1, keepdim=True)
        active = weights * (pairs.gap + MARGIN * largest > 0)
        by_score = torch.zeros_like(g)
        by_score.scatter_(-1, pairs.inside, active).scatter_(-1, pairs.outside, -active)
        by_score.scatter_add_(-1, top, MARGIN * active.sum(-1, keepdim=True))
        total = g.abs().sum(-1, keepdim=True).clamp(min=1e-300)
        # the slope of a quotient, up to the positive factor 1 / total, which no step of a fixed length sees
        return (by_score - (by_score * g.abs()).sum(-1, keepdim=True) / total) * g.sign()


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The p-th weakest salient feature and the p-th strongest other one, p = 1..P.

    Args:
        gap: between their scores (M, R, P).
        inside, outside: which features they are.
    """

    gap: Tensor
    inside: Tensor
    outside: Tensor

    @classmethod
    def of(cls, g: Tensor, k: int) -> "_Pairs":
        scores, count = g.abs(), min(k, g.shape[-1] - k)
        inside, i = scores[..., :k].sort(-1)
        outside, j = scores[..., k:].topk(count, -1)
        return cls(inside[..., :count] - outside, i[..., :count], j + k)

    @property
    def lost(self) -> Tensor:
        """How many of the salient features (M, R) are not among the top k; a tie displaces none."""
        return (self.gap < 0).sum(-1)


def centred(x: Tensor, groups: Sequence[Sequence[int]]) -> Tensor:
    """x (..., n) without the mean of each group."""
    x = x.clone()
    for group in map(list, groups):
        x[..., group] -= x[..., group].mean(-1, keepdim=True)
    return x


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True).clamp(min=1e-300)


def into_ball(delta: Tensor, radius: Radius) -> Tensor:
    """The nearest vectors (..., n) of a length of at most the radius."""
    # a little less: the length of what was added to x and subtracted again is rounded
    return delta * (radius * (1 - 1e-12) / delta.norm(dim=-1, keepdim=True).clamp(min=1e-300)).clamp(max=1.0)
