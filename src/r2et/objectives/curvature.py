"""Objectives that flatten the explanation: Est-H, Exact-H, SSR and CL (Sec. 6.1, Prop. 4.5)."""

from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.domain import WithoutGauge
from r2et.enclosure.attributions import Attributions
from r2et.enclosure.head import head
from r2et.enclosure.network import Network
from r2et.enclosure.problems import certified_score, why_not
from r2et.enclosure.reading import extract
from r2et.errors import ModelError
from r2et.explainers import Gradient
from r2et.numerics.autograd import derivative, unit
from r2et.numerics.jacobian import jacobian
from r2et.numerics.values import check_choice, check_count, check_positive, check_weight
from r2et.objectives.explained_batch import Direction, ExplainedBatch
from r2et.objectives.objective import OBJECTIVES
from r2et.objectives.regularised import Regularised, Term, check_reference

Denominator = Literal["auto", "enclosure", "point"]


@OBJECTIVES.register("est-h")
@dataclass(frozen=True, kw_only=True)
class EstimatedHessian(Regularised):
    """Est-H: cross-entropy + weight * ||H v|| by a finite difference along the gradient.

    Args:
        weight: of the norm (lambda).
        difference: length of the finite difference (kappa in Table 4).
        direction: v, along the "gradient" or "random".

    >>> model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
    >>> EstimatedHessian(weight=0.1)(model, torch.randn(16, 9), torch.randint(0, 2, (16,))).backward()
    """

    weight: float = 1.0
    difference: float = 1e-2
    direction: Direction = "gradient"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weight("weight", self.weight)
        check_positive("difference", self.difference)
        check_choice("direction", self.direction, get_args(Direction))

    def terms(self, batch: ExplainedBatch) -> dict[str, Term]:
        """The mean of the norms."""
        norms = batch.difference_quotient(self.direction, size=self.difference)
        return {"curvature": Term(norms.mean(), self.weight)}


@OBJECTIVES.register("exact-h")
@dataclass(frozen=True, kw_only=True)
class ExactHessian(Regularised):
    """Exact-H: cross-entropy + weight * ||H||_F, every entry of the derivative of the explanation.

    >>> model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
    >>> ExactHessian(weight=0.1)(model, torch.randn(16, 9), torch.randint(0, 2, (16,))).backward()
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weight("weight", self.weight)

    def terms(self, batch: ExplainedBatch) -> dict[str, Term]:
        """The mean of the Frobenius norms."""
        hessian = batch.along_reach(jacobian(batch.attributions, batch.x, create_graph=True))
        return {"hessian": Term(hessian.flatten(start_dim=1).norm(dim=1).mean(), self.weight)}


@OBJECTIVES.register("ssr")
@dataclass(frozen=True, kw_only=True)
class SSR(Regularised):
    """SSR: cross-entropy + weight * largest eigenvalue magnitude of the Hessian, by power iteration.

    For an explanation whose derivative is not symmetric it is the largest singular value.

    Args:
        weight: of the eigenvalue.
        iterations: products with the Hessian and its transpose.

    >>> model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
    >>> SSR(weight=0.1)(model, torch.randn(16, 9), torch.randint(0, 2, (16,))).backward()
    """

    weight: float = 1.0
    iterations: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weight("weight", self.weight)
        check_count("iterations", self.iterations)

    def terms(self, batch: ExplainedBatch) -> dict[str, Term]:
        """The mean of the largest eigenvalue magnitudes."""
        explained = batch.attributions
        probe = torch.zeros_like(explained, requires_grad=True)
        # linear in the probe, so that its derivative by the probe is a product with the untransposed Jacobian
        transposed = derivative(explained, batch.x, probe, create_graph=True)
        vector = unit(
            torch.randn(explained.shape, generator=batch.generator, device=probe.device, dtype=probe.dtype)
        )
        for _ in range(self.iterations):
            across = derivative(explained, batch.x, vector, retain_graph=True).flatten(start_dim=1)
            across = unit(batch.along_reach(across)).reshape(batch.x.shape)
            vector = unit(derivative(transposed, probe, across, retain_graph=True))
        product = derivative(explained, batch.x, vector, create_graph=True).flatten(start_dim=1)
        return {"eigenvalue": Term(batch.along_reach(product).norm(dim=1).mean(), self.weight)}


@OBJECTIVES.register("cl")
@dataclass(frozen=True, kw_only=True)
class CertifiedRadius(Regularised):
    """CL: cross-entropy - weight * min over pairs of h / max ||H_i - H_j|| (Prop. 4.5), for retraining.

    With the "enclosure" the maximum over the ball is bounded from above, for the log-odds of a smooth network: the
    ratio, where it is at most `ball`, is a certified radius. With "point" the Hessian is the one at x, of whatever
    is explained: the paper's estimate.

    Args:
        k: size of the salient set.
        weight: of the radius.
        reference: a frozen model whose ranking is to be kept; None = the current ranking.
        denominator: "auto" takes the enclosure for Gradient on a smooth network whose layers are known, and the
            point otherwise: a ReLU net has no curvature of the log-odds.
        ball: radius of the ball of the enclosure.

    >>> model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
    >>> CertifiedRadius(k=3)(model, torch.randn(16, 9), torch.randint(0, 2, (16,))).backward()
    """

    k: int = 8
    weight: float = 1.0
    reference: nn.Module | None = field(default=None, repr=False)
    denominator: Denominator = "auto"
    ball: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("k", self.k)
        check_weight("weight", self.weight)
        check_reference(self.reference)
        check_choice("denominator", self.denominator, get_args(Denominator))
        check_positive("ball", self.ball)

    def terms(self, batch: ExplainedBatch) -> dict[str, Term]:
        """The mean of the smallest ratios."""
        batch.explainer.check_k(self.k, batch.scores.shape[-1])
        network = None if self.denominator == "point" else self._network(batch)
        radius = self._at_points(batch) if network is None else self._enclosed(batch, network)
        return {"radius": Term(radius.mean(), -self.weight)}

    def _network(self, batch: ExplainedBatch) -> Network | None:
        """The model as enclosures see it, connected to its parameters; None where the point is to be taken."""
        obstacle = why_not(batch.explainer, batch.x)
        if obstacle is None and type(batch.explainer) is not Gradient:
            obstacle = f"CL encloses Gradient alone, not {type(batch.explainer).__name__}"
        if obstacle is None:
            try:
                network = extract(_bare(batch.model), batch.x.shape[1:], detach=False)
            except ModelError as error:
                obstacle = str(error)
            else:
                if network.smooth:
                    return network
                obstacle = "the network has kinks; r2et.validate.smooth replaces ReLU"
        if self.denominator == "enclosure":
            raise ModelError(f"CL cannot enclose its denominators: {obstacle}; denominator='point' needs none")
        return None

    def _enclosed(self, batch: ExplainedBatch, network: Network) -> Tensor:
        """min over pairs of h / an upper bound of ||H_i - H_j|| on the ball, for the log-odds, (N,)."""
        x = batch.x.detach().double().flatten(1)
        _, logits = network.forward(x)
        score = certified_score(batch.explainer)
        chosen = head(network, logits, batch.target, score)
        attributions = Attributions(network, x, x, chosen, x, times_input=False)
        gradient = attributions.gradient
        kept = batch.ranking_to_keep(self.reference)
        top, rest = ranking.top_k(kept, self.k), ranking.order(kept)[..., self.k :]
        sign = torch.ones_like(gradient) if batch.explainer.reduce == "signed" else gradient.detach().sign()
        i = top.repeat_interleave(rest.shape[1], 1)
        j = rest.repeat(1, self.k)
        gaps = (sign * gradient).gather(1, i) - (sign * gradient).gather(1, j)
        enclosed = attributions.on_balls(torch.full_like(x[:, :1], self.ball))
        slopes = enclosed.hessian_slopes(i, sign.gather(1, i), j, -sign.gather(1, j))[..., 0]
        return (gaps / slopes.clamp_min(1e-12)).amin(1).to(batch.x.dtype)

    def _at_points(self, batch: ExplainedBatch) -> Tensor:
        """min over pairs of h / ||H_i - H_j|| at x, (N,)."""
        explainer = batch.explainer
        scores = explainer.ranked(batch.scores, self.k)
        kept = explainer.ranked(batch.ranking_to_keep(self.reference), self.k)
        top = ranking.top_k(kept, self.k)
        rest = ranking.order(kept)[..., self.k :]
        slopes = batch.along_reach(jacobian(scores, batch.x, create_graph=True)).reshape(*scores.shape, -1)

        def pick(indices: Tensor) -> tuple[Tensor, Tensor]:
            rows = indices[..., None].expand(*indices.shape, slopes.shape[-1])
            return scores.gather(-1, indices), slopes.gather(-2, rows)

        salient, other = pick(top), pick(rest)
        gaps = salient[0][..., :, None] - other[0][..., None, :]
        spread = (salient[1][..., :, None, :] - other[1][..., None, :, :]).norm(dim=-1)
        ratios: Tensor = gaps / spread.clamp_min(1e-12)
        if explainer.positive:
            # two empty places never change places
            empty = (top < self.k)[..., :, None] & (rest < self.k)[..., None, :]
            ratios = ratios.masked_fill(empty, torch.inf)
        return ratios.flatten(start_dim=1).amin(1)


def _bare(model: nn.Module) -> nn.Module:
    """The model inside of what Lightning Fabric puts around it where processes share gradients."""
    if isinstance(model, WithoutGauge):
        return model.around(_bare(model.model))
    original: nn.Module = getattr(model, "_original_module", model)
    return original
