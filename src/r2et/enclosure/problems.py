"""From a model, inputs and an explainer to what the enclosures work on; or a sentence on why that cannot be."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from r2et.enclosure.attributions import Attributions
from r2et.enclosure.column_effects import ColumnAttributions, Variants
from r2et.enclosure.feature_pairs import FeaturePairs
from r2et.enclosure.head import head
from r2et.enclosure.network import Network
from r2et.enclosure.reading import extract
from r2et.enclosure.size import Size
from r2et.errors import ModelError
from r2et.explainers import ColumnEffects, Contributions, Explainer, Gradient, GradientTimesInput, SmoothGrad
from r2et.numerics.autograd import forward, written_backwards
from r2et.numerics.memory import at_once
from r2et.numerics.modes import copied
from r2et.numerics.values import check_k
from r2et.scores import Score, runners_up, score
from r2et.validate.tracing import check_traceable

#: the explainers whose derivatives can be enclosed; a subclass may explain something else
ENCLOSED = (Gradient, GradientTimesInput, SmoothGrad, ColumnEffects)
#: inputs that are certified together, at most
ROWS_AT_ONCE = 64
#: the same where nothing is enclosed together
PLAIN_ROWS_AT_ONCE = 512


def why_not(explainer: Explainer, x: Tensor) -> str | None:
    """Why enclosures say nothing about this explanation; None if they do."""
    name = type(explainer).__name__
    if type(explainer) not in ENCLOSED:
        known = ", ".join(kind.__name__ for kind in ENCLOSED)
        return f"the derivative of {name} is not enclosed; {known} are"
    if explainer.inputs != 1:
        return "enclosures are for models of one input (inputs=1)"
    if explainer.reduce == "abs-sum" and x.shape[1] != 1:
        return f"reduce='abs-sum' over {x.shape[1]} channels is not enclosed; 'abs' and 'signed' are"
    if type(explainer) in (SmoothGrad, ColumnEffects) and explainer.score == "probability":
        does = "averages over points" if type(explainer) is SmoothGrad else "compares rows"
        return (
            f"{name} {does}, where the probability and the log-odds rank differently, and only "
            f"log-odds, margin and logit are enclosed: ask for {name}(score='log-odds')"
        )
    if type(explainer) in (SmoothGrad, ColumnEffects) and explainer.score == "margin":
        return f"the runner-up class may differ between the points of {name}: ask for score='log-odds'"
    return None


def why_uncertified(explainer: Explainer, x: Tensor) -> str | None:
    """Why no certificate but smoothing is about this explanation, whatever the network; None if there may be one.

    Contributions have certificates of their own, which do not enclose derivatives.
    """
    if type(explainer) is not Contributions:
        return why_not(explainer, x)
    if explainer.score == "probability":
        return (
            "Contributions add up differences of scores, and those of the probability are no sums over neurons: "
            "ask for Contributions(score='log-odds')"
        )
    return None


def certified_score(explainer: Explainer) -> Score:
    """The score whose gradient is enclosed: at a single point the log-odds rank as the probability does."""
    return "log-odds" if explainer.score == "probability" else explainer.score


@dataclass(frozen=True)
class Problem:
    """One chunk of inputs.

    Attributes:
        attributions: with enclosures.
        pairs: the functionals that are to stay positive.
        logits: at x, (N, C).
        target: the explained class, (N,).
        runner_up: the other class with the largest logit, as the model has it, (N,).
    """

    attributions: Attributions
    pairs: FeaturePairs
    logits: Tensor
    target: Tensor
    runner_up: Tensor


@dataclass(frozen=True)
class Reading:
    """A model in float64, as it runs and as it is enclosed, with the explainer that is certified."""

    model: nn.Module
    network: Network
    explainer: Explainer

    @staticmethod
    def of(model: nn.Module, x: Tensor, explainer: Explainer, movable: Tensor | None = None) -> "Reading":
        """A copy of the model in evaluation mode; `movable` features (n,) alone move, None = all."""
        check_traceable(model)
        exact = copied(model).double().eval()
        for parameter in exact.parameters():
            parameter.requires_grad_(False)
        network = extract(exact, x.shape[1:])
        _check_backward(exact, x)
        if isinstance(explainer, ColumnEffects | Contributions):
            # between two values of a discrete column there is no row to compare
            numbers = explainer.columns.continuous.to(x.device)
            movable = numbers if movable is None else numbers & movable.to(x.device)
        network = network if movable is None else network.where(movable)
        return Reading(exact, network, replace(explainer, score=certified_score(explainer)))

    def problems(self, x: Tensor, target: Tensor, k: int, chunk_size: int | None) -> Iterator[Problem]:
        """Chunk by chunk what is to be certified."""
        size = int(chunk_size or Size.of(self.network, self.explainer, k).rows_at_once(ROWS_AT_ONCE))
        for part, label in zip(x.detach().double().split(size), target.split(size), strict=True):
            flat = part.flatten(1)
            logits, runner_up, values = self._at(part, label, k)
            if isinstance(self.explainer, ColumnEffects):
                effects = self._effects(self.explainer, flat, values, label, logits)
                yield self._checked(effects, k, logits, label, runner_up)
                continue
            points, labels, point_logits = flat, label, logits
            if isinstance(self.explainer, SmoothGrad):
                noise = self.explainer.noise(part.shape[1:]).to(flat).flatten(1)
                points = (flat.unsqueeze(1) + noise).flatten(0, 1)
                labels = label.repeat_interleave(len(noise))
                point_logits = self.network.forward(points)[1]
            chosen = head(self.network, point_logits, labels, self.explainer.score, runner_up)
            times_input = isinstance(self.explainer, GradientTimesInput)
            attributions = Attributions(self.network, flat, points, chosen, values, times_input)
            yield self._checked(attributions, k, logits, label, runner_up)

    def plain_problems(self, x: Tensor, target: Tensor, k: int, chunk_size: int | None) -> Iterator[Problem]:
        """Chunk by chunk the lists at x alone, for a proof with enclosures of its own: without functionals."""
        size = int(chunk_size or min(PLAIN_ROWS_AT_ONCE, at_once(x[0].numel(), copies=PLAIN_ROWS_AT_ONCE)))
        signed = self.explainer.reduce == "signed"
        for part, label in zip(x.detach().double().split(size), target.split(size), strict=True):
            logits, runner_up, values = self._at(part, label, k)
            chosen = head(self.network, logits, label, self.explainer.score, runner_up)
            attributions = Attributions(self.network, part.flatten(1), part.flatten(1), chosen, values, False)
            yield Problem(attributions, FeaturePairs.lists(values, k, signed), logits, label, runner_up)

    def _at(self, part: Tensor, label: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, runners-up and signed attributions at the inputs of a chunk."""
        logits, real = self._checked_logits(part)
        # where two classes tie, rounding may name another one here than in the model
        runner_up = runners_up(real, label)
        with torch.enable_grad():
            values = self.explainer.attribute(self.model, part.clone().requires_grad_(), label)
        check_k(k, values[0].numel())
        return logits, runner_up, values.detach().flatten(1)

    def _checked(
        self, attributions: Attributions, k: int, logits: Tensor, target: Tensor, runner_up: Tensor
    ) -> Problem:
        floor = attributions.floor()
        self._check_gradient(attributions, floor)
        pairs = FeaturePairs.of(attributions.values, k, self.explainer.reduce == "signed", floor)
        return Problem(attributions, pairs, logits, target, runner_up)

    def _effects(
        self, explainer: ColumnEffects, x: Tensor, values: Tensor, target: Tensor, logits: Tensor
    ) -> ColumnAttributions:
        """The effects of columns at rows x (N, n)."""
        rows, share, column = explainer.variants(x)
        labels = target.repeat_interleave(rows.shape[1])
        points = rows.flatten(0, 1)
        there = self.network.forward(points)[1]
        score_head = head(self.network, there, labels, explainer.score)
        variants = Variants(points, score_head, share, column, len(explainer.columns))
        here = variants.weight * score(explainer.score, logits, target).unsqueeze(1)
        return ColumnAttributions(
            self.network,
            x,
            head(self.network, logits, target, explainer.score),
            values,
            columns=explainer.columns,
            variants=variants,
            differences=here - variants.summed(score(explainer.score, there, labels)),
            weights=explainer.weights,
        )

    def _check_gradient(self, attributions: Attributions, floor: Tensor) -> None:
        """The gradient that is explained must be that of the network that is enclosed."""
        factor = attributions.x.abs() if attributions.times_input else torch.ones_like(attributions.values)
        read = attributions.read()
        size = attributions.values.abs().amax(1, keepdim=True)
        apart = (read - attributions.values).abs() > 1e-6 * size + floor + attributions.unsure_at_x() * factor
        if apart.any():
            row, feature = apart.nonzero()[0].tolist()
            raise ModelError(
                f"{type(self.model).__name__} gives feature {feature} of input {row} an attribution of "
                f"{float(attributions.values[row, feature]):.6g}, its layers, one by one, "
                f'{float(read[row, feature]):.6g}: its backward pass is another one; use method="smoothing"'
            )

    def checked_logits(self, x: Tensor) -> Tensor:
        """Logits (N, C) as the enclosures see them, after a check that the model has the same."""
        return self._checked_logits(x)[0]

    def _checked_logits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits as the enclosures see them and as the model has them, after a check that both agree."""
        read = self.network.forward(x.flatten(1))[1]
        with torch.no_grad():
            real = self.model(x)
        if not torch.allclose(read, real, rtol=1e-6, atol=1e-6):
            raise ModelError(
                f"{type(self.model).__name__} gives logits {real[0].tolist()} where its layers, one by one, give "
                f'{read[0].tolist()}: its forward depends on more than they show; use method="smoothing"'
            )
        return read, real


def _check_backward(model: nn.Module, x: Tensor) -> None:
    """Raise if the model has slopes of its own: they may be those of its layers at x, and others elsewhere."""
    written = written_backwards(forward(model, x[:1].double())[1])
    if written:
        raise ModelError(
            f"{type(model).__name__} has the backward pass of {written[0]}, a torch.autograd.Function: what is "
            'explained is not the derivative of its layers, which is what is enclosed; use method="smoothing"'
        )
