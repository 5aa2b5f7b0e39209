"""The quantities of Theorem 5.2: how often features outside the top k overtake it at random inputs around x.

With S the top-k set at x, m = k(n-k) pairs of i in S and j not in S, and a draw x' from a distribution D around x:

    R_{0,1}(x')   = share of pairs with I_i(x') < I_j(x'),         R_true = its mean over D,
    R_{phi,u}(x') = mean of phi_u(I_i(x') - I_j(x')),              phi_u falls from 1 at 0 to 0 at the margin u,
    R_{0,1,u}(x') = share of pairs with I_i(x') < I_j(x') + u.

They grow in this order. The theorem, for a map I of a class F with covering number N and chi the chromatic number
of the dependency graph of the pairs:

    P{R_true >= R_{0,1,u}(x') + eps} <= 2 N(F, eps u / 8) exp(-2 m eps^2 / chi).

Where the paper leaves a choice:

- The main text has no factor 2; the appendix (A.5) has it and is followed.
- The appendix sums j from 1 to n but divides by m pairs of a salient and another feature: j = k+1..n.
- The appendix writes the empirical risks at x. Nothing would be random then; they are taken at the draw x'.
- "D preserves the salient features": S is the reference at every x'. Were S also the top k of I(x') everywhere,
  R_true would be 0.
- chi <= 1 + the largest degree; that degree is at most m - 1, not m, so chi <= m.
- The proof is not in the paper. A cover of radius eps u / 8 uses up eps / 2 of the deviation, which leaves
  2 N exp(-m eps^2 / (2 chi)): `derived_bound`. One fixed map needs no cover: there the printed one holds.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from scipy import special
from torch import Tensor, nn

from r2et import ranking
from r2et.errors import InputError, ModelError
from r2et.explainers import Explainer, Gradient
from r2et.numerics.checks import check_generator, check_inputs
from r2et.numerics.memory import at_once
from r2et.numerics.modes import own_draws
from r2et.numerics.preflight import measuring
from r2et.numerics.values import check_chunk_size, check_count, check_k, check_kind, check_number, check_positive
from r2et.stability import AdversarialNeighbours, GaussianNeighbours, Neighbours

#: N(F, r) as a number, or as a function of the radius r
Covering = float | Callable[[float], float]


class Estimate(NamedTuple):
    """A sampled quantity of each input with its confidence interval, (N,) each."""

    value: Tensor
    lower: Tensor
    upper: Tensor


@dataclass(frozen=True)
class StatisticalStability:
    """What Theorem 5.2 is about, sampled, and its bound. Each interval holds for one input with 1 - alpha.

    Attributes:
        k: size of the salient set.
        margin: u, in the units of the explanation.
        epsilon: eps.
        pairs: m, over both inputs of a pair.
        chromatic: chi.
        covering: N(F, eps u / 8).
        samples: draws from D.
        alpha: of the intervals.
        empirical: R_{0,1,u}(x') of each draw x', (samples, N): the theorem's empirical risk is one row of it.
        risk: R_true, the mean of R_{0,1}; empirical Bernstein interval.
        surrogate: the mean of R_{phi,u}; empirical Bernstein interval.
        margin_risk: the mean of R_{0,1,u}; empirical Bernstein interval.
        exceedance: P{R_true >= R_{0,1,u}(x') + eps}, the left side of the theorem. The first half of the draws
            gives R_true's interval, the second half is counted against it; Clopper-Pearson interval.
        gap: mean of I_i(x') - I_j(x') over pairs and draws (N,): the thickness of Eq. 3 without its path.
            The gap is not bounded, so there is no interval.
    """

    k: int
    margin: float
    epsilon: float
    pairs: int
    chromatic: float
    covering: float
    samples: int
    alpha: float
    empirical: Tensor = field(repr=False)
    risk: Estimate = field(repr=False)
    surrogate: Estimate = field(repr=False)
    margin_risk: Estimate = field(repr=False)
    exceedance: Estimate = field(repr=False)
    gap: Tensor = field(repr=False)

    @property
    def bound(self) -> float:
        """2 N(F, eps u / 8) exp(-2 m eps^2 / chi), as printed in the appendix."""
        return 2 * self.covering * math.exp(-2 * self.pairs * self.epsilon**2 / self.chromatic)

    @property
    def derived_bound(self) -> float:
        """2 N(F, eps u / 8) exp(-m eps^2 / (2 chi)): what a cover of this radius leaves for a class of maps."""
        return 2 * self.covering * math.exp(-self.pairs * self.epsilon**2 / (2 * self.chromatic))

    @property
    def vacuous(self) -> bool:
        """Whether the bound on a probability is 1 or more, and so says nothing."""
        return self.bound >= 1

    def summary(self) -> str:
        """A few lines of text, with the average over the inputs and the worst of them."""
        lines = [
            f"Theorem 5.2, {len(self.gap)} inputs, top {self.k}, margin {self.margin:g}, {self.samples} draws",
            *(
                f"{name:<28}mean {float(e.value.mean()):.4f}, largest {float(e.value.max()):.4f} "
                f"(at most {float(e.upper.max()):.4f} with {1 - self.alpha:.0%})"
                for name, e in (
                    ("true 0-1 risk", self.risk),
                    ("surrogate risk", self.surrogate),
                    ("0-1 risk with margin", self.margin_risk),
                    (f"P[true >= margin + {self.epsilon:g}]", self.exceedance),
                )
            ),
            f"bound of the last: 2 x {self.covering:g} x exp(-2 x {self.pairs} x {self.epsilon:g}^2 / "
            f"{self.chromatic:g}) = {self.bound:.4g}" + (" (vacuous: it says nothing)" if self.vacuous else ""),
        ]
        return "\n".join(lines)


def statistical_stability(
    model: nn.Module,
    x: Tensor,
    k: int,
    margin: float,
    *,
    epsilon: float = 0.1,
    explainer: Explainer | None = None,
    neighbours: Neighbours | None = None,
    samples: int = 1000,
    chromatic: float | None = None,
    covering: Covering = 1.0,
    alpha: float = 0.05,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
) -> StatisticalStability:
    """Sample the risks of Theorem 5.2 around each input and evaluate its bound.

    Args:
        model: maps (N, *features) to logits (N, C); it is put into evaluation mode for the time of the call.
        x: (N, *features).
        k: size of the salient set.
        margin: u, in the units of the explanation.
        epsilon: eps.
        explainer: None = Gradient of the probability, the scale of Eq. 2. The class is the one predicted at x.
        neighbours: the distribution D, of independent random draws; None = GaussianNeighbours(0.1).
        samples: draws, at least 4.
        chromatic: chi, between 1 and the number of pairs; None = the number of pairs, which always holds.
        covering: N(F, r) as a number or a function of r = eps u / 8; 1 for one fixed map.
        alpha: each interval of each input fails with this probability at most.
        generator: of the draws; None = what torch's global one would draw next, which stays where it is.
        chunk_size: draws that are explained at once; None = as many as fit 2**24 values.

    >>> model = torch.nn.Linear(5, 2)
    >>> sampled = statistical_stability(model, torch.zeros(3, 5), k=2, margin=1e-9, explainer=Gradient())
    >>> sampled.risk.value, sampled.vacuous      # a linear model never reorders; chi = m makes the bound useless
    (tensor([0., 0., 0.], dtype=torch.float64), True)
    """
    explainer = Gradient(score="probability") if explainer is None else explainer
    neighbours = GaussianNeighbours() if neighbours is None else neighbours
    check_inputs(x)
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    check_kind("neighbours", neighbours, Neighbours, "r2et.stability.GaussianNeighbours(0.1)")
    check_generator(generator)
    explainer.check_shape(x)
    check_positive("margin", margin)
    check_positive("epsilon", epsilon)
    check_chunk_size(chunk_size)
    check_count("samples", samples, least=4)
    check_number("alpha", alpha, 0, 1, inside=True)
    if chromatic is not None:
        check_number("chromatic", chromatic, low=1)
    if isinstance(neighbours, AdversarialNeighbours):
        raise InputError(f"Theorem 5.2 is about random draws; {neighbours!r} are not: use GaussianNeighbours")
    with measuring(model, x):
        _, target, before = explainer.explained(model, x)
        check_k(k, before.shape[-1])
        top = ranking.top_k_mask(before, k)
        pairs = explainer.inputs * k * (top.shape[-1] - k)
        chi = float(pairs if chromatic is None else chromatic)
        if not 1 <= chi <= pairs:
            raise InputError(f"chromatic must lie between 1 and the {pairs} pairs, got chromatic={chromatic}")
        alpha = float(alpha)
        number = covering(epsilon * margin / 8) if callable(covering) else covering
        check_number("covering", number, low=1)
        cover = float(number)
        draws = neighbours.each(model, x, samples, own_draws(generator, x))
        chunk = chunk_size or at_once(x.numel())
        parts = []
        while part := list(itertools.islice(draws, chunk)):
            points = torch.cat([explainer.within(draw, x) for draw in part])
            scores = explain_at(model, points, target.repeat(len(part)), explainer)
            parts.append(_risks(scores.double().unflatten(0, (len(part), len(x))), top, margin))
    risk, surrogate, margin_risk, gap = torch.cat(parts, dim=1)
    if len(risk) != samples:
        raise InputError(f"{neighbours!r} gave {len(risk)} draws instead of samples={samples}")
    return StatisticalStability(
        k=k,
        margin=float(margin),
        epsilon=float(epsilon),
        pairs=pairs,
        chromatic=chi,
        covering=cover,
        samples=samples,
        alpha=alpha,
        empirical=margin_risk,
        risk=empirical_bernstein(risk, alpha),
        surrogate=empirical_bernstein(surrogate, alpha),
        margin_risk=empirical_bernstein(margin_risk, alpha),
        exceedance=_exceedance(risk, margin_risk, epsilon, alpha),
        gap=gap.mean(0),
    )


def empirical_bernstein(values: Tensor, alpha: float) -> Estimate:
    """Mean of independent draws in [0, 1] with its two-sided interval (Maurer and Pontil 2009, Theorem 4).

    Args:
        values: (draws, ...), at least two draws.
        alpha: the interval of one mean fails with this probability at most.

    >>> empirical_bernstein(torch.full((1000, 1), 0.5), 0.05).upper
    tensor([0.5102])
    """
    draws = len(values)
    log = math.log(4 / alpha)
    mean = values.mean(0)
    width = (2 * values.var(0) * log / draws).sqrt() + 7 * log / (3 * (draws - 1))
    return Estimate(mean, (mean - width).clamp_min(0), (mean + width).clamp_max(1))


def clopper_pearson(counts: Tensor, samples: int, tail: float) -> tuple[Tensor, Tensor]:
    """Exact bounds of probabilities from counts of successes; each side fails with probability `tail` at most.

    Args:
        counts: successes, integers (...).
        samples: trials.
        tail: probability of failure of one side.

    Returns:
        Lower and upper bounds, float64 (...): 0 below no success, 1 above no failure.

    >>> lower, upper = clopper_pearson(torch.tensor([0, 5, 10]), 10, 0.025)
    >>> [f"{low:.3f} to {high:.3f}" for low, high in zip(lower.tolist(), upper.tolist())]
    ['0.000 to 0.308', '0.187 to 0.813', '0.692 to 1.000']
    """
    # as many features share a count, each count that occurs is inverted once
    seen, place = np.unique(counts.cpu().numpy(), return_inverse=True)
    success, failure = seen.astype(float), float(samples) - seen
    lower = np.where(success > 0, special.betaincinv(np.maximum(success, 1), failure + 1, tail), 0.0)
    upper = np.where(failure > 0, 1 - special.betaincinv(np.maximum(failure, 1), success + 1, tail), 1.0)
    place = place.reshape(counts.shape)
    device = counts.device
    return torch.as_tensor(lower[place], device=device), torch.as_tensor(upper[place], device=device)


def explain_at(model: nn.Module, points: Tensor, target: Tensor, explainer: Explainer) -> Tensor:
    """Scores (P, ..., n) of random points (P, *features) for classes (P,); NaN is an error, not a rank."""
    with torch.enable_grad():
        attributions = explainer.attribute(model, points.detach().requires_grad_(), target)
    scores = explainer.flatten(attributions.detach())
    if not torch.isfinite(scores).all():
        row = int((~torch.isfinite(scores)).flatten(1).any(1).nonzero()[0])
        raise ModelError(
            "the explanation of a noisy copy of an input is NaN or infinite, "
            f"{scores[row].flatten()[:8].tolist()}: "
            "such scores cannot be ranked; smaller noise may stay where the model is defined"
        )
    return scores


def _exceedance(risk: Tensor, margin_risk: Tensor, epsilon: float, alpha: float) -> Estimate:
    """P{R_true >= R_{0,1,u}(x') + eps} from both risks of each draw, (samples, N) each."""
    half = len(risk) // 2
    true = empirical_bernstein(risk[:half], alpha / 2)
    draws = margin_risk[half:]
    counts = [(level >= draws + epsilon).sum(0) for level in true]
    lower, _ = clopper_pearson(counts[1], len(draws), alpha / 4)
    _, upper = clopper_pearson(counts[2], len(draws), alpha / 4)
    return Estimate(counts[0].double() / len(draws), lower, upper)


def _risks(scores: Tensor, top: Tensor, margin: float) -> Tensor:
    """R_{0,1}, R_{phi,u}, R_{0,1,u} and the mean gap of explanations (draws, N, ..., n), as (4, draws, N).

    Each other feature is looked up among the k sorted salient ones, so that no table of pairs is needed.
    """
    n, k = top.shape[-1], int(top.flatten(0, -2)[0].sum())
    members = top.expand_as(scores)
    salient = scores[members].reshape(*scores.shape[:-1], k).sort(dim=-1).values
    others = scores[~members].reshape(*scores.shape[:-1], n - k)
    totals = torch.cat([torch.zeros_like(salient[..., :1]), salient.cumsum(-1)], dim=-1)

    def below(level: Tensor) -> tuple[Tensor, Tensor]:
        """How many salient scores are below the levels, and the sum of their distances to them."""
        count = torch.searchsorted(salient, level.contiguous(), side="left")
        return count.double().sum(-1), (count * level - totals.gather(-1, count)).sum(-1)

    wrong, depth = below(others)
    narrow, reach = below(others + margin)
    pairs = k * (n - k)
    # phi_u(z) = ((u - z)_+ - (-z)_+) / u; between the two counts whatever rounding does to the difference
    surrogate = torch.minimum(torch.maximum((reach - depth) / margin, wrong), narrow)
    gap = salient.mean(-1) - others.mean(-1)
    risks = torch.stack([wrong / pairs, surrogate / pairs, narrow / pairs, gap])
    # both inputs of a pair have as many pairs of features
    return risks.flatten(start_dim=3).mean(-1) if risks.ndim > 3 else risks
