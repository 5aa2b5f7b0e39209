"""The randomised certificate: for any model, the top-k features of a map that is smoothed by Gaussian noise.

The map is q_i(x) = P[i is among the top tau features of the explanation of x + sigma z], z standard normal; the
top k of q is certified. Phi^-1(q_i) changes by at most ||delta|| / sigma whatever the model is, so q moves slowly
even where the plain explanation jumps.

Let S be any set of k features, L_[i] the i-th largest lower bound of q inside of it, U_[m] the m-th largest upper
bound outside. If S and the top k of q(x + delta) share fewer than i features, then one of the i features of S with
the largest lower bounds was displaced, and one of the newcomers (k-i+1 or more) has an upper bound of at most
U_[k-i+1]. The newcomer scores at least as high there, so ||delta|| is at least

    rho_i = sigma/2 (Phi^-1(L_[i]) - Phi^-1(U_[k-i+1])).

The bounds hold for all n features at once: S may be chosen from the same counts.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.certificates.certificate import Certificate
from r2et.certificates.statistical import clopper_pearson, explain_at
from r2et.domain import IN_WORDS, Domain, Reach, Threat, check_threat, under_threat
from r2et.errors import InputError
from r2et.explainers import Explainer, Gradient
from r2et.files.unpacking import read_arrays
from r2et.files.writing import writing
from r2et.numerics.checks import check_inputs, check_labels, check_logits
from r2et.numerics.memory import at_once
from r2et.numerics.preflight import check_module, measuring
from r2et.numerics.row_noise import row_normal_chunks
from r2et.numerics.values import (
    check_chunk_size,
    check_count,
    check_flag,
    check_k,
    check_kind,
    check_number,
    check_path,
    check_positive,
    check_seed,
    plain_numbers,
    quoted,
)
from r2et.progress import progress_bar
from r2et.scores import checked_target

#: noisy copies that are explained at once, at most; an explainer may keep several passes of each
COPIES_AT_ONCE, PASSES = 2048, 16


@dataclass(frozen=True, kw_only=True)
class Smoothing:
    """The method of `r2et.certify` for any model: it certifies the smoothed explanation and not the plain one.

    `noisy_counts` followed by `NoisyCounts.certificate`: keep the counts to try another k or alpha without new
    samples.

    Args:
        sigma: standard deviation of the noise in the units of x: larger noise, larger radii, a blurrier map.
        samples: noisy copies of each input.
        alpha: the chance, over the noise, that a radius of one input is too large.
        seed: of the noise.
        tau: how many features of a noisy copy count as its top ones; None = k.
        simultaneous: let alpha be the chance that one of the N inputs has too large a radius.

    >>> from r2et import certify
    >>> model = torch.nn.Linear(3, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [1.0, -4.0, 2.0]])
    >>> certificate = certify(model, torch.ones(1, 3), k=1, method=Smoothing(samples=1000))
    >>> certificate.top, certificate.radius
    (tensor([[1]]), tensor([0.5949], dtype=torch.float64))
    """

    sigma: float = 0.25
    samples: int = 20_000
    alpha: float = 0.001
    seed: int = 0
    tau: int | None = None
    simultaneous: bool = False

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_positive("sigma", self.sigma)
        check_count("samples", self.samples)
        check_number("alpha", self.alpha, 0, 1, inside=True)
        check_seed(self.seed)
        if self.tau is not None:
            check_count("tau", self.tau)
        check_flag("simultaneous", self.simultaneous)


@dataclass(frozen=True)
class NoisyCounts:
    """How often each feature was among the top tau under noise: certificates for any k and alpha come from it.

    Attributes:
        counts: int64 (N, n), or (N, 2, n) for pairs of inputs.
        target: the class that was explained, int64 (N,).
        samples: how many noisy copies of each input were explained.
        sigma: standard deviation of the noise, in the units of x.
        tau: how many features of a noisy copy count as its top ones.
        explainer: the explainer's settings, in words.
        seed: of the noise.
        threat: what the noise moves, and the perturbations against which it certifies.

    >>> counts = NoisyCounts(torch.tensor([[1000, 0]]), torch.tensor([0]), 1000, 0.25, 1, "Gradient()", 0)
    >>> counts.certificate(k=1, alpha=0.01).radius
    tensor([0.6284], dtype=torch.float64)
    """

    counts: Tensor = field(repr=False)
    target: Tensor = field(repr=False)
    samples: int
    sigma: float
    tau: int
    explainer: str
    seed: int
    threat: Threat = "paper"

    def __post_init__(self) -> None:
        check_threat(self.threat)
        check_count("samples", self.samples)
        check_positive("sigma", self.sigma)
        check_kind("counts", self.counts, Tensor, "an int64 tensor (N, n)")
        if self.counts.ndim not in (2, 3) or self.counts.dtype != torch.int64 or self.counts.numel() == 0:
            raise InputError(
                "counts must be an int64 tensor (N, n) or (N, 2, n), got "
                f"{self.counts.dtype} of shape {tuple(self.counts.shape)}"
            )
        check_k(self.tau, self.features)
        check_labels(self.target, len(self.counts))
        inside = bool(((self.counts >= 0) & (self.counts <= self.samples)).all())
        if not inside or bool((self.counts.sum(-1) != self.tau * self.samples).any()):
            raise InputError(
                f"counts must lie between 0 and samples={self.samples} and add up to tau * samples = "
                f"{self.tau * self.samples} for each input, which these do not"
            )

    @property
    def features(self) -> int:
        """How many features are ranked, n."""
        return self.counts.shape[-1]

    def certificate(
        self, k: int | None = None, *, alpha: float = 0.001, simultaneous: bool = False
    ) -> Certificate:
        """Radii for the top k of q; no model is run.

        Args:
            k: size of the certified set; None = tau. It may differ from tau, which stays what was sampled.
            alpha: the chance, over the noise, that a radius of one input is too large.
            simultaneous: let alpha be the chance that one of the N inputs has too large a radius.

        Returns:
            Radii in float64; `top` is the set with the largest counts, (N, k), or (N, 2, k) for pairs, whose
            radius is that of the input that changes first. `details` has "scores", "lower" and "upper": the
            estimates of q and their bounds, in the shape of the counts. Where the radius is 0 the samples do not
            tell whether `top` is the top-k set of q.
        """
        k = self.tau if k is None else k
        check_k(k, self.features)
        check_number("alpha", alpha, 0, 1, inside=True)
        check_flag("simultaneous", simultaneous)
        inputs = len(self.counts)
        bounded = self.counts[0].numel() * (inputs if simultaneous else 1)
        lower, upper = clopper_pearson(self.counts, self.samples, float(alpha) / (2 * bounded))
        top = ranking.top_k_mask(self.counts, k)
        limits = _limits(lower, upper, top, k, self.sigma)
        scope = f"all {inputs} inputs together" if simultaneous else "one input, not for a batch of them"
        return Certificate(
            limits=limits.reshape(inputs, -1, k).amin(1),
            method="smoothing",
            explanation=(
                f"the top {k} features by the frequency with which a feature is among the top {self.tau} of "
                f"{self.explainer} under Gaussian noise of standard deviation {self.sigma:g}"
                + ("" if self.threat == "paper" else " on what may move")
            ),
            assumptions=(
                f"threat {self.threat}: {IN_WORDS[self.threat]}",
                f"with probability {1 - alpha:g} over the {self.samples} noise vectors, for {scope}; "
                "nobody who knew the noise chose the input",
                "it is about these frequencies (of the population, not of the sample) and not about "
                "the explanation without noise",
                "the explained class is held fixed, whatever is predicted for noisy or perturbed inputs",
                "floating-point rounding in the model and in the noise is not accounted for",
            ),
            top=ranking.top_k(self.counts, k),
            details={"scores": smoothed_scores(self), "lower": lower, "upper": upper},
        )

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file of plain arrays."""
        check_path("path", path)
        # an open file, because numpy would add an ending of its own to a name
        with writing(path) as file:
            np.savez_compressed(
                file,
                counts=self.counts.cpu().numpy(),
                target=self.target.cpu().numpy(),
                samples=self.samples,
                sigma=self.sigma,
                tau=self.tau,
                explainer=self.explainer,
                seed=self.seed,
                threat=self.threat,
            )

    @classmethod
    def load(cls, path: str | Path) -> "NoisyCounts":
        """Read what `save` wrote; a file that would have to be unpickled is refused."""
        check_path("path", path)
        try:
            file = read_arrays(Path(path))
            return cls(
                counts=torch.from_numpy(file["counts"]),
                target=torch.from_numpy(file["target"]),
                samples=int(file["samples"]),
                sigma=float(file["sigma"]),
                tau=int(file["tau"]),
                explainer=str(file["explainer"]),
                seed=int(file["seed"]),
                threat=str(file["threat"]),  # type: ignore[arg-type]  # it checks
            )
        except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
            raise InputError(f"{quoted(path)} is not a file of noisy counts: {error}") from error


def noisy_counts(
    model: nn.Module,
    x: Tensor,
    tau: int,
    *,
    sigma: float = 0.25,
    samples: int = 20_000,
    explainer: Explainer | None = None,
    target: Tensor | None = None,
    seed: int = 0,
    domain: Domain | None = None,
    threat: Threat | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> NoisyCounts:
    """Explain noisy copies of each input and count how often each feature is among the top tau.

    The noise of a row depends on its own values and the seed, and its copies are never mixed with those of another
    row: a row alone gives the same counts as the row in a batch.

    Args:
        model: maps (N, *features) to logits (N, C); it is put into evaluation mode for the time of the call.
        x: (N, *features).
        tau: how many features of a noisy copy count as its top ones. Ties go to the smaller index.
        sigma: standard deviation of the noise in the units of x: larger noise, larger radii, a blurrier map.
        samples: noisy copies of each input. No radius exceeds sigma Phi^-1((alpha / 2n)^(1 / samples)).
        explainer: None = Gradient of the log-odds.
        target: the class that is explained, int64 (N,); None = the predicted class of the clean input.
        seed: of the noise.
        domain: what exists.
        threat: what may move, and so what the noise moves: features that are frozen have none. None = "domain"
            where a domain is known, else "paper".
        chunk_size: how many noisy copies are explained at once; None = up to 2,048.
        progress: show a progress bar.

    >>> model = torch.nn.Linear(3, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [1.0, -4.0, 2.0]])
    >>> noisy_counts(model, torch.ones(1, 3), tau=2, samples=50).counts    # a linear model ignores the noise
    tensor([[ 0, 50, 50]])
    """
    explainer = Gradient() if explainer is None else explainer
    check_inputs(x)
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    check_module(model)
    model, reach = under_threat(model, x, domain, threat, inputs=explainer.inputs)
    return count_within(
        model,
        x,
        tau,
        reach=reach,
        sigma=sigma,
        samples=samples,
        explainer=explainer,
        target=target,
        seed=seed,
        chunk_size=chunk_size,
        progress=progress,
    )


def count_within(
    model: nn.Module,
    x: Tensor,
    tau: int,
    *,
    reach: Reach,
    sigma: float,
    samples: int,
    explainer: Explainer,
    target: Tensor | None,
    seed: int,
    chunk_size: int | None,
    progress: bool,
) -> NoisyCounts:
    """`noisy_counts` of a model that is already what is explained under a threat (f o A).

    The bound is that of Gaussian noise on the features that move, of a map of these alone.
    """
    explainer.check_shape(x)
    explainer.refuse_moves(reach.movable)
    check_positive("sigma", sigma)
    check_count("samples", samples)
    check_seed(seed)
    check_count("tau", tau)
    check_chunk_size(chunk_size)
    chunk = chunk_size or min(COPIES_AT_ONCE, at_once(x[0].numel(), copies=PASSES))
    with measuring(model, x), progress_bar("smoothing", len(x) * samples, progress) as advance:
        with torch.no_grad():
            logits = model(x)
        check_logits(logits, len(x))
        target = checked_target(target, logits)
        rows = []
        # the inputs of a pair have one domain for both
        moves = reach.movable.to(x).expand(explainer.inputs, -1).reshape(x.shape[1:])
        for row, label in zip(x.detach(), target, strict=True):
            counts: Tensor | int = 0
            for noise in row_normal_chunks(row, samples, chunk=chunk, seed=seed):
                copies = explainer.within(row + sigma * moves * noise, row)
                scores = explain_at(model, copies, label.expand(len(noise)), explainer)
                check_k(tau, scores.shape[-1])
                counts = counts + ranking.top_k_mask(scores, tau).sum(0)
                advance(len(noise))
            rows.append(torch.as_tensor(counts))
    told = repr(explainer)
    return NoisyCounts(torch.stack(rows), target, samples, float(sigma), tau, told, seed, reach.threat)


def smoothed_scores(counts: NoisyCounts) -> Tensor:
    """The estimate of q: the share of noisy copies in which a feature is among the top tau, in float64.

    Returns:
        (N, n), or (N, 2, n) for pairs; each row adds up to tau.

    >>> counts = NoisyCounts(torch.tensor([[75, 25]]), torch.tensor([0]), 100, 0.25, 1, "Gradient()", 0)
    >>> smoothed_scores(counts)
    tensor([[0.7500, 0.2500]], dtype=torch.float64)
    """
    check_kind("counts", counts, NoisyCounts, "what r2et.certificates.noisy_counts returns")
    return counts.counts.double() / counts.samples


def _limits(lower: Tensor, upper: Tensor, top: Tensor, k: int, sigma: float) -> Tensor:
    """limits[..., m] = rho_{k-m}, at least 0, from bounds (..., n) and the chosen set as a mask."""
    inside = lower.masked_fill(~top, -1.0).topk(k, dim=-1).values
    newcomers = min(k, top.shape[-1] - k)
    outside = upper.masked_fill(top, -1.0).topk(newcomers, dim=-1).values
    # m + 1 newcomers displace m + 1 features: L_[k-m] against U_[m+1]
    rising = inside.flip(-1)
    radii = sigma / 2 * (torch.special.ndtri(rising[..., :newcomers]) - torch.special.ndtri(outside))
    # n - k features cannot displace more than n - k, however far the input moves
    return torch.cat([radii.clamp_min(0.0), torch.full_like(rising[..., newcomers:], torch.inf)], dim=-1)
