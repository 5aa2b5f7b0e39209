"""Points that displace features, and the single check of a certificate against them.

A point at a distance of d whose list has lost q features is a witness against every certificate that claims more
than d for q - 1 of them: limits[:, q - 1] > d. One table of the smallest such distances, for every q, judges all
certificates of a network: those of all methods, searched or at given radii, and those that are wrong on purpose.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from benchmarks.ugly import Case
from r2et import ranking
from r2et.certificates import Certificate
from r2et.domain import Reach, under_threat
from r2et.explainers import ColumnEffects, Explainer
from r2et.numerics.modes import copied

#: halvings of the way from x to a witness
HALVINGS = 24
#: points that are explained together
TOGETHER = 4096


@dataclass(frozen=True, eq=False)
class Ground:
    """What is certified, in float64: everything that an attack and its judge need.

    Attributes:
        model: that is explained, f o A where groups have sums.
        x: (N, n).
        target: the explained class, (N,).
        explainer: whose list is judged.
        k: size of the list.
        reach: what may move.
    """

    model: nn.Module
    x: Tensor
    target: Tensor
    explainer: Explainer
    k: int
    reach: Reach

    @classmethod
    def of(cls, case: Case) -> "Ground":
        """The float64 copy of the model, under the threat; the class is what the model as it is predicts."""
        target = case.target
        if target is None:
            with torch.no_grad():
                target = case.model(case.x).argmax(1)
        x = case.x.double()
        model, reach = under_threat(copied(case.model).double().eval(), x, case.domain, case.threat)
        explainer = case.explainer
        if explainer.score == "probability":
            # ranks in the same way, and does not underflow
            explainer = replace(explainer, score="log-odds")
        return cls(model, x, target, explainer, case.k, reach)

    @cached_property
    def movable(self) -> Tensor:
        """Which features an attacker moves, bool (n,)."""
        if isinstance(self.explainer, ColumnEffects):
            return self.reach.movable & self.explainer.columns.continuous
        return self.reach.movable

    def allowed(self, steps: Tensor) -> Tensor:
        """The part of steps (..., n) that the threat allows."""
        return self.reach.allowed(torch.where(self.movable, steps, 0.0))

    @cached_property
    def top(self) -> Tensor:
        """The lists at x, bool (N, features)."""
        return ranking.top_k_mask(self.explainer(self.model, self.x, self.target), self.k)

    @cached_property
    def predicted(self) -> Tensor:
        """The classes at x, (N,)."""
        with torch.no_grad():
            return self.model(self.x).argmax(1)

    def lost(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """How many features each point (P, n) of a row (P,) displaces, and whether its class is another one."""
        parts = [self._lost(p, r) for p, r in zip(points.split(TOGETHER), rows.split(TOGETHER), strict=True)]
        return torch.cat([lost for lost, _ in parts]), torch.cat([other for _, other in parts])

    def _lost(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.explainer(self.model, points, self.target[rows])
        with torch.no_grad():
            logits = self.model(points)
        usable = scores.isfinite().all(1) & logits.isfinite().all(1)
        now = ranking.top_k_mask(torch.where(usable[:, None], scores, 0.0), self.k)
        lost = (self.top[rows] & ~now).sum(1)
        return torch.where(usable, lost, 0), usable & (logits.argmax(1) != self.predicted[rows])


class Smallest:
    """The smallest distances at which so many features are displaced, and at which the class is another one.

    Attributes:
        norms: (N, k): entry q - 1 is of a point that displaces q features or more; infinite where none is known.
        points: these points, (N, k, n).
        changed: distances at which the predicted class is another one, (N,).
    """

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        rows = len(ground.x)
        self.norms = torch.full((rows, ground.k), torch.inf, dtype=torch.float64)
        self.points = ground.x.unsqueeze(1).repeat(1, ground.k, 1)
        self.changed = torch.full((rows,), torch.inf, dtype=torch.float64)

    def add(self, points: Tensor, rows: Tensor) -> None:
        """Judge points (P, n) of rows (P,)."""
        if not len(points):
            return
        lost, other = self.ground.lost(points, rows)
        norms = (points - self.ground.x[rows]).norm(dim=1)
        self.changed.scatter_reduce_(0, rows, torch.where(other, norms, torch.inf), "amin")
        self.take(points, rows, norms, lost)

    def take(self, points: Tensor, rows: Tensor, norms: Tensor, lost: Tensor) -> None:
        """Points (P, n) of rows (P,) that were judged elsewhere: distances and numbers of features lost, (P,)."""
        table = torch.where(torch.arange(self.norms.shape[1]) < lost[:, None], norms[:, None], torch.inf)
        for row in rows[lost > 0].unique().tolist():
            own = (rows == row).nonzero().squeeze(1)
            nearest, place = table[own].min(0)
            better = nearest < self.norms[row]
            self.norms[row] = torch.where(better, nearest, self.norms[row])
            self.points[row] = torch.where(better[:, None], points[own[place]], self.points[row])

    @property
    def known(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, numbers of features less one, and points (P, n) of all witnesses."""
        rows, places = self.norms.isfinite().nonzero(as_tuple=True)
        return rows, places, self.points[rows, places]

    def contract(self) -> None:
        """Come as near to x as each witness allows, on the straight line."""
        rows, places, points = self.known
        if not len(rows):
            return
        x, step = self.ground.x[rows], points - self.ground.x[rows]
        low, high = torch.zeros(len(rows), dtype=torch.float64), torch.ones(len(rows), dtype=torch.float64)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            still = self.ground.lost(x + middle[:, None] * step, rows)[0] > places
            low, high = torch.where(still, low, middle), torch.where(still, middle, high)
        self.add(x + high[:, None] * step, rows)

    def against(self, certificate: Certificate) -> Tensor:
        """Which claims have a witness against them, bool (N, k): the one check of this hunt."""
        broken = self.norms < certificate.limits
        held = certificate.details.get("prediction")
        if held is not None:
            broken = broken | ((self.changed < held)[:, None] & (certificate.limits > 0))
        return broken

    def share(self, limits: Tensor) -> Tensor:
        """limits (N, k) as a share of the smallest distances, 0 where either says nothing; above 1 it is wrong."""
        useful = self.norms.isfinite() & limits.isfinite() & (limits > 0)
        return torch.where(useful, limits / self.norms, 0.0)
