"""Explainers that average gradients over several points: SmoothGrad and Integrated Gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from r2et.errors import InputError
from r2et.explainers.explainer import EXPLAINERS, Explainer
from r2et.numerics.checks import check_baseline
from r2et.numerics.memory import at_once
from r2et.numerics.values import check_choice, check_chunk_size, check_count, check_positive, check_seed
from r2et.scores import Score

Rule = Literal["gauss-legendre", "trapezoid"]


@dataclass(frozen=True, kw_only=True)
class AveragedGradient(Explainer):
    """The shared part: a weighted sum of gradients at points around or below x.

    The default score is the probability, as in the paper: averages over points rank log-odds and probability
    differently.
    """

    score: Score = "probability"
    chunk_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_chunk_size(self.chunk_size)

    def average_gradient(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool,
        point: Callable[[int], Tensor],
        weights: Tensor,
    ) -> Tensor:
        """sum_m weights[m] * grad score(point(m)), in the shape of x; `chunk_size` points at a time."""
        count = len(weights)
        chunk = self.chunk_size or at_once(x.numel())
        total = torch.zeros_like(x)
        for first in range(0, count, chunk):
            members = range(first, min(first + chunk, count))
            points = torch.cat([point(m) for m in members])
            if not points.requires_grad:
                points = points.detach().requires_grad_()
            gradients = self.gradient(
                model, points, target.repeat(len(members)), create_graph=create_graph, logits=None
            )
            part = weights[first : first + len(members)].to(x)
            total = total + torch.einsum("m,m...->...", part, gradients.reshape(len(members), *x.shape))
        return total


@EXPLAINERS.register("smoothgrad")
@dataclass(frozen=True, kw_only=True)
class SmoothGrad(AveragedGradient):
    """The mean gradient over noisy copies of x (App. A.1.2, "SG").

    The noise is drawn once from `seed` and is the same for every row and call, so that an explanation is a
    function of x alone: before and after an attack, alone and in a batch.

    Args:
        samples: how many noisy copies (M in the paper).
        sigma: standard deviation of the noise in the units of x. The paper's 0.5 ** 0.5 for tabular data is
            the default.
        seed: of the noise.

    >>> model = torch.nn.Linear(3, 2)
    >>> bool(torch.allclose(SmoothGrad(samples=4, score="log-odds")(model, torch.ones(1, 3)),
    ...                     (model.weight[1] - model.weight[0]).abs()[None], atol=1e-6))
    True
    """

    samples: int = 50
    sigma: float = 0.5**0.5
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("samples", self.samples)
        check_positive("sigma", self.sigma)
        check_seed(self.seed)

    def noise(self, shape: torch.Size) -> Tensor:
        """The fixed noise vectors for inputs of one shape, (samples, *features)."""
        return self.sigma * _standard_noise(self.seed, self.samples, tuple(shape))

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """mean_m grad score(x + noise_m), in the shape of x."""
        noise = self.noise(x.shape[1:]).to(x)
        weights = torch.full((self.samples,), 1 / self.samples, dtype=torch.float64)
        return self.average_gradient(
            model, x, target, create_graph=create_graph, point=lambda m: x + noise[m], weights=weights
        )


@EXPLAINERS.register("integrated-gradients")
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(AveragedGradient):
    """(x - x0) * integral of grad score(x0 + a (x - x0)) over a in [0, 1] (App. A.1.2, "IG").

    Args:
        baseline: x0, a number or a tensor (*features), in the units of x. For standardised images the raw zero
            is not 0: convert it.
        points: how many points on the path.
        rule: "gauss-legendre" or "trapezoid".

    >>> model = torch.nn.Linear(3, 2)
    >>> x = torch.randn(2, 3)
    >>> explainer = IntegratedGradients(score="log-odds", reduce="signed")
    >>> target = torch.tensor([0, 1])
    >>> from r2et.scores import log_odds
    >>> difference = log_odds(model(x), target) - log_odds(model(torch.zeros_like(x)), target)
    >>> bool(torch.allclose(explainer(model, x, target).sum(1), difference, atol=1e-5))   # completeness
    True
    """

    baseline: float | Tensor = 0.0
    points: int = 100
    rule: Rule = "gauss-legendre"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("rule", self.rule, get_args(Rule))
        check_count("points", self.points, least=2)
        check_baseline(self.baseline)

    def quadrature(self) -> tuple[Tensor, Tensor]:
        """Positions on [0, 1] and their weights, float64 (points,) each."""
        if self.rule == "trapezoid":
            position = torch.linspace(0, 1, self.points, dtype=torch.float64)
            weight = torch.full((self.points,), 1 / (self.points - 1), dtype=torch.float64)
            weight[[0, -1]] /= 2
            return position, weight
        nodes, weights = _gauss_legendre(self.points)
        return (nodes + 1) / 2, weights / 2

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """(x - x0) times the mean gradient on the path from x0 to x, in the shape of x."""
        start = torch.as_tensor(self.baseline).to(x)
        if start.ndim > 0 and start.shape != x.shape[1:]:
            raise InputError(
                f"the baseline has shape {tuple(start.shape)}, one input has {tuple(x.shape[1:])}: give a number "
                "or a tensor of that shape"
            )
        position, weights = self.quadrature()
        mean = self.average_gradient(
            model,
            x,
            target,
            create_graph=create_graph,
            point=lambda m: start + float(position[m]) * (x - start),
            weights=weights,
        )
        return (x - start) * mean


@lru_cache(maxsize=8)
def _gauss_legendre(points: int) -> tuple[Tensor, Tensor]:
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return torch.from_numpy(nodes), torch.from_numpy(weights)


@lru_cache(maxsize=8)
def _standard_noise(seed: int, samples: int, shape: tuple[int, ...]) -> Tensor:
    # the same numbers whatever torch's default dtype and device are
    source = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(samples, *shape, generator=source, dtype=torch.float32, device="cpu")
