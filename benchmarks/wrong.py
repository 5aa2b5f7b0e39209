"""Certificates that are wrong on purpose: each forgets what a proof needs, and the hunt has to see it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from r2et.certificates import deterministic, dual_bounds, parabolas, quadratic
from r2et.enclosure import Box, attributions, march
from r2et.enclosure.activations import MaxPool

Wrong = Callable[[], AbstractContextManager[Any]]
#: even steps to the first-order radius, where what they end on is to matter
COARSE = 2
#: what a certificate that is too large is multiplied by
TOO_LARGE = 1.01


def left_ends(network: Any, x: Tensor, head: Any, times: Tensor, *given: bool, **named: bool) -> Any:
    """Each step is enclosed on the ball at its start."""
    return march(network, x, head, torch.cat([torch.zeros_like(times[:, :1]), times[:, :-1]], 1), *given, **named)


def without_first_layer(
    network: Any, x: Tensor, head: Any, times: Tensor, *given: bool, **named: bool
) -> Iterator[Any]:
    """The curvature of the first layer is forgotten."""
    for ball in march(network, x, head, times, *given, **named):
        if not ball.bends:
            # a linear network has no layer to forget
            yield ball
            continue
        none = Box.point(torch.zeros_like(ball.bends[0].center))
        yield replace(ball, bends=[none, *ball.bends[1:]])


def without_softmax(
    network: Any, x: Tensor, head: Any, times: Tensor, *given: bool, **named: bool
) -> Iterator[Any]:
    """The second derivative of the log-odds by the logits is forgotten."""
    for ball in march(network, x, head, times, *given, **named):
        yield replace(ball, weights=None)


def half_the_ball(network: Any, x: Tensor, head: Any, times: Tensor, *given: bool, **named: bool) -> Any:
    """Enclosures on balls of half the radius."""
    return march(network, x, head, times / 2, *given, **named)


def _marching(march_wrongly: Callable[..., Any], *, coarse: bool = False) -> Wrong:
    @contextmanager
    def context() -> Iterator[None]:
        fine = COARSE if coarse else deterministic.FINE
        with patch.object(attributions, "march", march_wrongly), patch.object(deterministic, "FINE", fine):
            yield

    return context


def _charged_without_ball(terms: Any, values: Tensor, slopes: Tensor, norm: Tensor) -> Tensor:
    charged: Tensor = _charged(terms, values, slopes, torch.zeros_like(norm))
    return charged


def _least_but_one(terms: Any, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """The neuron whose minimum is lowest counts as it is at x, as if it could not move."""
    values, places = _least(terms, slopes)
    still = terms.at(torch.zeros_like(places))
    which = (still - values).argmax(1, keepdim=True)
    return values.scatter(1, which, still.gather(1, which)), places


def _on_half_the_ball(terms: Any, narrow: Tensor, at: Any) -> tuple[Tensor, Tensor]:
    on_ball: tuple[Tensor, Tensor] = _on_ball(replace(terms, radius=terms.radius / 2), narrow, at)
    return on_ball


_on_ball = parabolas._on_ball
_charged, _least = dual_bounds.Terms._charged, dual_bounds.Terms.least

TIES = "slopes halfway between the sides of a tie"


class _Stay:
    """Errors of curvatures that are the same on every ball: none."""

    def __init__(self, none: Any) -> None:
        self.none = none

    def mean(self, _: Tensor) -> Any:
        """Over steps."""
        return self.none


def method_of(name: str) -> str:
    """The method that a wrong certificate is about."""
    if "softmax" in name:
        # the quadratic bound has an expansion of its own, and takes these derivatives for granted
        return "integral"
    return next((method for method in ("dual", "quadratic") if f"the {method} bound" in name), "auto")


#: by what is wrong
WRONG: dict[str, Wrong] = {
    "enclosures at the left ends of steps": _marching(left_ends),
    "enclosures at the left ends of two long steps": _marching(left_ends, coarse=True),
    "no curvature of the first layer": _marching(without_first_layer),
    "no derivative of the softmax": _marching(without_softmax),
    "no ball in the dual bound": lambda: patch.object(dual_bounds.Terms, "_charged", _charged_without_ball),
    "one neuron that does not move in the dual bound": lambda: patch.object(
        dual_bounds.Terms, "least", _least_but_one
    ),
    "parabolas on half the ball in the dual bound": lambda: patch.object(parabolas, "_on_ball", _on_half_the_ball),
    "curvatures that stay in the quadratic bound": lambda: patch.object(
        quadratic.Piece, "errors", property(lambda piece: _Stay(piece.expanded.no_errors()))
    ),
    TIES: lambda: patch.object(MaxPool, "slope_at", lambda pool, z: sum(pool.slope(z, z)) / 2),
}
