"""Networks of one hidden layer around many points: explanations and their slopes by formulas.

With z = W1 x + b1, target c, w the softmax over the other classes and r = W2^T (e_c - w), the gradient of the
log-odds is g = W1^T (r * sigma'(z)), and the derivative of v . g by x is
W1^T (r * sigma''(z) * W1 v + sigma'(z) * W2^T psi W2 (sigma'(z) * W1 v)), psi = w w^T - diag w.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.enclosure.network import INPUT, Network
from r2et.enclosure.ranges import EnclosedActivation
from r2et.enclosure.scalar_minima import has_minima


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """W2 sigma(W1 x + b1) + b2.

    Args:
        activation: sigma.
        w1, b1: (h, n), (h,).
        w2, b2: (C, h), (C,).
    """

    activation: EnclosedActivation
    w1: Tensor
    b1: Tensor
    w2: Tensor
    b2: Tensor

    @classmethod
    def of(cls, network: Network | None, dtype: torch.dtype = torch.float32) -> "HiddenLayer | None":
        """Of a network that has one hidden layer and nothing else between input and logits; else None.

        >>> from r2et.enclosure.reading import extract
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        >>> HiddenLayer.of(extract(model, torch.Size([3]))).w1.shape
        torch.Size([4, 3])
        """
        if network is None or len(network.layers) != 1 or set(network.blocks) != {0}:
            return None
        (layer,) = network.layers
        if (
            not has_minima(layer.activation)
            or set(layer.matrices) != {INPUT}
            or set(network.logits.matrices) != {0}
        ):
            return None
        assert layer.activation is not None
        parts = layer.matrices[INPUT], layer.bias, network.logits.matrices[0], network.logits.bias
        return cls(layer.activation, *(part.detach().to(dtype) for part in parts))

    def alike(self, other: "HiddenLayer") -> bool:
        """Whether the weights are the same."""
        return all(torch.equal(getattr(self, name), getattr(other, name)) for name in ("w1", "b1", "w2", "b2"))


@dataclass(frozen=True, eq=False)
class Look:
    """What a network does at points (M, R, n).

    Args:
        g: the gradient of the log-odds, in the order of each row's own list, (M, R, n).
        odds: of the class, or what is left of the tolerance of a single output, see `r2et.scores.slack`, (M, R).
        kept: whether the prediction stays, bool (M, R).
        slope: sigma'(z), (M, R, h).
        lean: for a single output the slope of `odds` by it, (M, R, 1); None for classes.
        classes: r (M, R, h) and the softmax over the other classes (M, R, C); None for two classes.
    """

    g: Tensor
    odds: Tensor
    kept: Tensor
    slope: Tensor
    classes: tuple[Tensor, Tensor] | None = None
    lean: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Around:
    """A network around some rows.

    Args:
        layer: the network.
        target: of the rows, (M,).
        z: their pre-activations (M, 1, h).
        listed: W1 with the features in the order of each row's list, (M, h, n).
        followed: W1 without what may not move, (h, n).
        two: where there are two classes or a single output, what is the same all over; else None.
        single: that output and its tolerance; None for classes.
    """

    layer: HiddenLayer
    target: Tensor
    z: Tensor
    listed: Tensor
    followed: Tensor
    two: "TwoClasses | None"
    single: "SingleOutput | None" = None

    @classmethod
    def of(
        cls,
        layer: HiddenLayer,
        x: Tensor,
        target: Tensor,
        order: Tensor,
        movable: Tensor,
        *,
        single: "SingleOutput | None" = None,
    ) -> "Around":
        """Around rows x (M, n).

        Args:
            layer: the network.
            x: in any dtype.
            target: classes, int64 (M,).
            order: the features of each row in the order of its list, int64 (M, n).
            movable: the rows of W1 without what may not move, (h, n).
            single: of a network with one output.
        """
        z = (x.double() @ layer.w1.double().T + layer.b1.double()).to(layer.w1.dtype).unsqueeze(1)
        listed = layer.w1[:, order].transpose(0, 1).contiguous()
        two = None
        if len(layer.w2) == 2:
            r = (layer.w2[target] - layer.w2[1 - target]).unsqueeze(-1)
            shift = (layer.b2[target] - layer.b2[1 - target])[:, None, None]
            two = TwoClasses(r, shift, r * listed, r * movable)
        elif single is not None:
            r = layer.w2[target].unsqueeze(-1)
            two = TwoClasses(r, layer.b2[target][:, None, None], r * listed, r * movable)
        return cls(layer, target, z, listed, movable, two, single)

    def inner(self, delta: Tensor) -> Tensor:
        """Pre-activations (M, R, h) at x + delta (M, R, n)."""
        return torch.matmul(delta, self.layer.w1.T).add_(self.z)

    def look(self, z: Tensor, activation: EnclosedActivation) -> Look:
        """At points with these pre-activations (M, R, h)."""
        value, slope = activation.value(z), activation.slope_at(z)
        if self.two is None:
            return self._with_classes(value, slope)
        odds = torch.baddbmm(self.two.shift, value, self.two.r).squeeze(-1)
        g = torch.bmm(slope, self.two.listed)
        if self.single is None:
            return Look(g, odds, odds > 0, slope)
        moved = (odds - self.single.clean) / self.single.tolerance
        return Look(
            g, 1 - moved.abs(), moved.abs() <= 1, slope, lean=-moved.sign().unsqueeze(-1) / self.single.tolerance
        )

    def follow(self, z: Tensor, judged: Look, followed: Sequence[tuple[EnclosedActivation, slice]]) -> Look:
        """The same by other activations; the log-odds of two classes are those that were judged."""
        slope = torch.cat([activation.slope_at(z[:, own]) for activation, own in followed], 1)
        if self.two is None:
            return self._with_classes(torch.cat([a.value(z[:, own]) for a, own in followed], 1), slope)
        return Look(torch.bmm(slope, self.two.listed), judged.odds, judged.kept, slope, lean=judged.lean)

    def _with_classes(self, value: Tensor, slope: Tensor) -> Look:
        """Where more than two classes trade weights: from sigma(z) and sigma'(z), (M, R, h) each."""
        layer = self.layer
        u = value @ layer.w2.T + layer.b2
        target = self.target[:, None, None].expand(*u.shape[:2], 1)
        own, others = u.gather(-1, target).squeeze(-1), u.scatter(-1, target, -math.inf)
        w = others.softmax(-1)
        r = layer.w2[self.target].unsqueeze(1) - w @ layer.w2
        g = torch.bmm(r * slope, self.listed)
        return Look(g, own - others.logsumexp(-1), own > others.amax(-1), slope, (r, w))

    def turned(self, seen: Look, curvature: Tensor, v: Tensor, leaving: Tensor | None) -> Tensor:
        """The derivative (M, R, n) by x of v . g, v (M, R, n) in the order of the lists.

        Args:
            seen: at the points.
            curvature: sigma''(z), (M, R, h); is overwritten.
            v: as above.
            leaving: what the slope of the log-odds weighs, (M, R, 1); None = nothing.
        """
        y = torch.bmm(v, self.listed.mT)
        back = curvature.mul_(y)
        if seen.classes is None:
            assert self.two is not None
            if leaving is not None:
                back.addcmul_(leaving if seen.lean is None else leaving * seen.lean, seen.slope, value=-1)
            return torch.bmm(back, self.two.followed)
        r, w = seen.classes
        t = (seen.slope * y) @ self.layer.w2.T
        back = back.mul_(r).addcmul_(seen.slope, (w * ((w * t).sum(-1, keepdim=True) - t)) @ self.layer.w2)
        if leaving is not None:
            back.addcmul_(leaving * r, seen.slope, value=-1)
        return back @ self.followed


@dataclass(frozen=True)
class SingleOutput:
    """How far a single output may move: `clean` outputs (M, 1) and the tolerance around them."""

    clean: Tensor
    tolerance: float


@dataclass(frozen=True, eq=False)
class TwoClasses:
    """What two classes, or a single output, have the same all over.

    Args:
        r: (M, h, 1).
        shift: what biases add to the log-odds or the output, (M, 1, 1).
        listed, followed: as in `Around`, times r, (M, h, n).
    """

    r: Tensor
    shift: Tensor
    listed: Tensor
    followed: Tensor
