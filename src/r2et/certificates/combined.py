"""The largest radius for each functional among all sound bounds that apply to a network."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.certificates.deterministic import deterministic_radii
from r2et.certificates.dual import dual_radii, radii_among, why_not_dual
from r2et.certificates.piecewise import piecewise_radii
from r2et.certificates.quadratic import quadratic_at, quadratic_radii, why_not_quadratic
from r2et.enclosure.feature_pairs import first_order_radii
from r2et.enclosure.network import Network
from r2et.enclosure.problems import Problem
from r2et.errors import InputError
from r2et.explainers import Explainer

#: what bounds functionals on growing balls, by the name of each
ENCLOSURES = {"integral": deterministic_radii, "intervals": piecewise_radii}
#: what each family of certificates consists of, beside the dual or the quadratic bound
FAMILIES = {"deterministic": "integral", "piecewise": "intervals"}


@dataclass(frozen=True)
class Combined:
    """Which bounds take part, and how much they may cost.

    Attributes:
        parts: "integral" or "intervals", and "dual" or "quadratic"; the larger radius counts.
        radii: at which the list is bounded; None = the radii themselves are looked for.
        budget: cuts of a ball for each functional that the dual bound leaves open.
    """

    parts: tuple[str, ...]
    radii: tuple[float, ...] | None
    budget: int

    def of(self, problem: Problem, refuted_at: Tensor | None = None) -> Tensor:
        """The radius to which each functional is certainly positive, (N, D); see `radii_among`."""
        attributions, pairs = problem.attributions, problem.pairs
        if self.only_at_radii:
            assert self.radii is not None
            return radii_among(attributions, pairs, self.radii, self.budget, refuted_at=refuted_at)
        if self.parts == ("dual",):
            first = pairs.limits(first_order_radii(pairs, attributions.slopes_at_x()))
            # between hinges nothing bends, and a guess that is infinite would be no place to look from
            first = torch.where(first.isfinite(), first, 1.0)
            known = torch.zeros_like(pairs.values)
            return dual_radii(attributions, pairs, known, budget=self.budget, around=first)
        if self.parts[-1] == "quadratic":
            return self._quadratic(problem)
        known = ENCLOSURES[self.parts[0]](attributions, pairs)
        return dual_radii(attributions, pairs, known, budget=self.budget) if "dual" in self.parts else known

    def _quadratic(self, problem: Problem) -> Tensor:
        attributions, pairs = problem.attributions, problem.pairs
        alone = len(self.parts) == 1
        known = torch.zeros_like(pairs.values) if alone else ENCLOSURES[self.parts[0]](attributions, pairs)
        if self.radii is None:
            return quadratic_radii(attributions, pairs, known, every=alone)
        return quadratic_at(attributions, pairs, known, self.radii, every=alone)

    def limits(self, problem: Problem, refuted_at: Tensor | None = None) -> Tensor:
        """Radii below which at most 0, 1, ... k - 1 features are displaced, (N, k)."""
        return problem.pairs.limits(self.of(problem, refuted_at))

    @property
    def only_at_radii(self) -> bool:
        """Whether limits are known at the asked radii alone: then the dual bound decides, without a search."""
        return self.radii is not None and self.parts[-1] == "dual"


def combined(
    network: Network,
    explainer: Explainer,
    *,
    method: str,
    family: str,
    radii: Sequence[float] | None,
    budget: int | None,
) -> Combined:
    """The bounds for a method, a family ("deterministic" or "piecewise") or one of its parts.

    "auto" leaves the dual bound out where it costs time and was seen to gain nothing: in a search for ReLU-like
    networks, and wherever the score itself bends, as log-odds of more than two classes do.
    """
    obstacle = why_not_dual(network, explainer)
    obstacles = {"dual": obstacle, "quadratic": why_not_quadratic(network, explainer)}
    if obstacles.get(method) is not None:
        raise InputError(f'method="{method}" does not apply: {obstacles[method]}; use "{family}"')
    asked = None if radii is None else tuple(float(radius) for radius in radii)
    if method in ENCLOSURES:
        parts: tuple[str, ...] = (method,)
    elif method in obstacles:
        parts = (method,)
    elif obstacles["quadratic"] is None:
        parts = (FAMILIES[family], "quadratic")
    elif obstacle is not None or (method == "auto" and not _pays(network, explainer, family, asked)):
        parts = (FAMILIES[family],)
    else:
        # at given radii the dual bound alone decides nearly all that any of them does
        parts = ("dual",) if asked is not None else (FAMILIES[family], "dual")
    # parabolas leave little to what cuts of a ball gain for their time
    return Combined(parts, asked, int(budget or 0))


def _pays(network: Network, explainer: Explainer, family: str, radii: tuple[float, ...] | None) -> bool:
    """Whether the dual bound is worth its time."""
    straight = len(network.logits.bias) <= 2 or explainer.score in ("logit", "margin")
    return straight and (radii is not None or family == "deterministic")
