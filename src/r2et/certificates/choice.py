"""`certify`: the strongest sound certificate for the explanation that was asked for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from r2et.certificates.additive import AdditiveLimits
from r2et.certificates.certificate import Certificate, in_words, joined
from r2et.certificates.combined import FAMILIES, Combined, combined
from r2et.certificates.deterministic import order_radii, other_classes, output_radii
from r2et.certificates.dual import why_not_dual
from r2et.certificates.exchange import refuted_at
from r2et.certificates.first_order import estimate
from r2et.certificates.of_contributions import Proofs, why_not_expanded, why_unproven
from r2et.certificates.quadratic import why_not_quadratic
from r2et.certificates.smoothing import Smoothing, count_within
from r2et.domain import Domain, Reach, Threat, under_threat
from r2et.enclosure.additive import why_not_additive
from r2et.enclosure.network import Network
from r2et.enclosure.problems import Problem, Reading, why_uncertified
from r2et.enclosure.size import Size
from r2et.errors import InputError, ModelError
from r2et.explainers import ColumnEffects, Contributions, Explainer, Gradient, SmoothGrad
from r2et.numerics.checks import check_inputs, check_logits
from r2et.numerics.preflight import check_module, dtype_mismatch, measuring
from r2et.numerics.values import (
    check_choice,
    check_chunk_size,
    check_count,
    check_flag,
    check_kind,
    check_positive,
    check_radii,
)
from r2et.progress import progress_bar
from r2et.scores import TOLERANCE, checked_target, settled, single

Method = Literal[
    "auto",
    "additive",
    "deterministic",
    "piecewise",
    "integral",
    "intervals",
    "dual",
    "quadratic",
    "smoothing",
    "first-order",
]

_ABOUT_ANOTHER = "it certifies frequencies under noise, which is another explanation; ask for it by name"
_NOT_SOUND = "it is an estimate, not a certificate; ask for it by name"


def certify(
    model: nn.Module,
    x: Tensor,
    k: int,
    *,
    explainer: Explainer | None = None,
    method: Method | Smoothing = "auto",
    target: Tensor | None = None,
    prediction: bool = False,
    tolerance: float | None = None,
    radii: Sequence[float] | None = None,
    budget: int | None = None,
    domain: Domain | None = None,
    threat: Threat | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Certificate:
    """A radius for each input inside which no perturbation changes its top-k features (Prop. 4.5, made sound).

    Args:
        model: maps (N, *features) to logits (N, C); it is certified in evaluation mode and in float64.
        x: (N, *features).
        k: size of the salient set.
        explainer: None = Gradient. The certificate is about this explanation or it is not given.
        method: "auto" takes "additive" (exact) where columns do not interact, "deterministic" for other smooth
            networks and "piecewise" for ReLU-like ones. The last two take the largest radius of all bounds that
            apply, which are methods too: "integral" (smooth) or "intervals" (ReLU-like) of enclosures on growing
            balls, "dual" for networks of one hidden layer and "quadratic" for smooth ones of two; "auto" leaves
            the dual bound out where it was seen to gain nothing (a search for ReLU-like networks, log-odds of more
            than two classes). What has to be asked for: `Smoothing(...)` (any model, but about a smoothed
            explanation; "smoothing" is short for its defaults) and "first-order" (an estimate).
        target: the class that is explained, int64 (N,); None = the predicted class. It is held fixed.
        prediction: certify also that the predicted class does not change, or that the output of a model with one
            output stays within the tolerance.
        tolerance: of a model with one output, in its units; None = `r2et.scores.TOLERANCE`, as for attacks.
        radii: bound P@k at these radii, cheaper than a search for the radius itself where the dual bound applies,
            and mostly closer, with two classes; it is known at these radii then, and between two of them what
            holds at the next larger one. With two hidden layers the quadratic bound is asked at these radii alone,
            and the integral is searched as ever. None = search.
        budget: into how many more parts the dual bound may cut the ball for each functional that it leaves open;
            each costs about as much as the bound itself. Of a stable network 64 close most of what is open.
            None = none.
        domain: what exists. Bounds and whole steps are not used: the certificate holds beyond them too.
        threat: what may move, as for attacks. "domain": numbers alone, frozen features leave the ball; "tangent":
            all, but the sums of categories stay; "paper": all. None = "domain" where a domain is known, else
            "paper".
        chunk_size: how many inputs at once (for smoothing: noisy copies); None = what keeps memory small.
        progress: show a progress bar.

    >>> model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> x = torch.randn(4, 6)
    >>> certificate = certify(model, x, k=2)
    >>> certificate.method, bool((certificate.radius > 0).all())
    ('deterministic', True)
    >>> certify(nn.Linear(6, 2), x, k=2).radius          # the gradient of a linear model is the same everywhere
    tensor([inf, inf, inf, inf], dtype=torch.float64)
    >>> certificate.methods  # whichever reaches farther, functional by functional
    ('integral', 'dual')
    >>> near = certify(model, x, k=2, radii=[0.01, 0.1])
    >>> near.methods, bool((near.precision_at(0.01) >= near.precision_at(0.1)).all())
    (('dual',), True)
    >>> numbers = certify(model, x, k=2, domain=Domain(frozen=[4, 5]))         # an attacker moves the first four
    >>> bool((numbers.radius >= certificate.radius).all())
    True
    """
    check_inputs(x)
    explainer = Gradient() if explainer is None else explainer
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    check_module(model)
    model, reach = under_threat(model, x, domain, threat, inputs=explainer.inputs)
    return certify_within(
        model,
        x,
        k,
        reach=reach,
        explainer=explainer,
        method=method,
        target=target,
        prediction=prediction,
        tolerance=tolerance,
        radii=radii,
        budget=budget,
        chunk_size=chunk_size,
        progress=progress,
    )


def certify_within(
    model: nn.Module,
    x: Tensor,
    k: int,
    *,
    reach: Reach,
    explainer: Explainer,
    method: Method | Smoothing = "auto",
    target: Tensor | None = None,
    prediction: bool = False,
    tolerance: float | None = None,
    radii: Sequence[float] | None = None,
    budget: int | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
    points: Tensor | None = None,
) -> Certificate:
    """`certify` of a model that is already what is explained under a threat (f o A), see `under_threat`.

    What attacks found at each of the radii, rising and each once, is `points` (R, N, *features): nobody tries to
    prove what they refute. It saves time and changes nothing else.
    """
    if not isinstance(method, Smoothing):
        check_choice("method", method, get_args(Method))
    check_chunk_size(chunk_size)
    check_flag("prediction", prediction)
    if tolerance is not None:
        check_positive("tolerance", tolerance)
    radii = None if radii is None else check_radii(radii)
    if budget is not None:
        check_count("budget", budget, least=0)
    explainer.check_shape(x)
    explainer.refuse_moves(reach.movable)
    name = "smoothing" if isinstance(method, Smoothing) else method
    if name in ("smoothing", "first-order") and prediction:
        raise InputError(f'prediction=True needs an enclosure of the network; method="{name}" has none')
    if name == "first-order":
        return estimate(model, x, k, reach=reach, explainer=explainer, target=target, chunk_size=chunk_size)
    if name != "smoothing":
        alike = explainer.alike(x) if type(explainer) is ColumnEffects else [(explainer, torch.arange(len(x)))]
        parts = []
        for part, rows in alike:
            own = x if len(alike) == 1 else x[rows.to(x.device)]
            with measuring(model, own):
                certificate = _enclosed(
                    model,
                    own,
                    k,
                    reach=reach,
                    explainer=part,
                    method=name,
                    target=target if target is None or len(alike) == 1 else target[rows],
                    prediction=prediction,
                    tolerance=tolerance,
                    radii=radii,
                    budget=budget,
                    chunk_size=chunk_size,
                    progress=progress,
                    points=points if points is None or len(alike) == 1 else points[:, rows],
                )
            parts.append((certificate, rows))
        return joined(parts)
    noise = method if isinstance(method, Smoothing) else Smoothing()
    counts = count_within(
        model,
        x,
        k if noise.tau is None else noise.tau,
        reach=reach,
        sigma=noise.sigma,
        samples=noise.samples,
        explainer=explainer,
        target=target,
        seed=noise.seed,
        chunk_size=chunk_size,
        progress=progress,
    )
    return counts.certificate(k, alpha=noise.alpha, simultaneous=noise.simultaneous)


def _enclosed(
    model: nn.Module,
    x: Tensor,
    k: int,
    *,
    reach: Reach,
    explainer: Explainer,
    method: Method,
    target: Tensor | None,
    prediction: bool,
    tolerance: float | None,
    radii: Sequence[float] | None,
    budget: int | None,
    chunk_size: int | None,
    progress: bool,
    points: Tensor | None,
) -> Certificate:
    with torch.no_grad():
        logits = model(x)
    check_logits(logits, len(x))
    explainer = replace(explainer, score=settled(explainer.score, logits))
    obstacle = why_uncertified(explainer, x)
    if obstacle is not None:
        raise _unproven(explainer, obstacle)
    mismatch = dtype_mismatch(model, x)
    if mismatch is not None:
        raise InputError(mismatch)
    target = checked_target(target, logits)
    reading = Reading.of(model, x, explainer, reach.movable)
    if isinstance(explainer, Contributions):
        return _of_contributions(
            reading,
            x,
            k,
            explainer=explainer,
            reach=reach,
            method=method,
            target=target,
            prediction=prediction,
            radii=radii,
            chunk_size=chunk_size,
            progress=progress,
        )
    not_additive = why_not_additive(reading.network, reading.explainer, logits.shape[1])
    family, reasons = _choose(reading.network, method, not_additive)
    Size.of(reading.network, reading.explainer, k, additive=family == "additive").check()
    bounds = None
    if family != "additive":
        obstacle = why_not_dual(reading.network, explainer)
        if obstacle is not None and reading.network.layers:
            reasons["dual"] = obstacle
            shape = why_not_quadratic(reading.network, reading.explainer)
            reasons |= {} if shape is None else {"quadratic": shape}
        bounds = combined(
            reading.network, reading.explainer, method=method, family=family, radii=radii, budget=budget
        )
    if bounds is None:
        limits_of: Callable[[Problem], Tensor] = AdditiveLimits(reading.network, reading.explainer)
    else:
        limits_of = _Limits(bounds, reading, points)
    problems = reading.plain_problems if bounds is None else reading.problems
    limits, tops, held = [], [], []
    with progress_bar("certify", len(x), progress) as advance, torch.no_grad():
        for problem in problems(x, target, k, chunk_size):
            own = limits_of(problem)
            if explainer.score == "margin":
                own = torch.minimum(own, _runner_up_radius(problem).unsqueeze(1))
            if prediction:
                held.append(_prediction_radius(problem, TOLERANCE if tolerance is None else float(tolerance)))
                own = torch.minimum(own, held[-1].unsqueeze(1))
            limits.append(own)
            tops.append(problem.pairs.top)
            advance(len(own))
    return Certificate(
        limits=torch.cat(limits),
        method=method if method in (*FAMILIES.values(), "dual", "quadratic") else family,
        methods=(family,) if bounds is None else bounds.parts,
        radii=bounds.radii if bounds is not None and bounds.only_at_radii else None,
        explanation=_explained_by(explainer),
        assumptions=_assumptions(explainer, reach, prediction=prediction),
        reasons=reasons,
        top=torch.cat(tops),
        details={"prediction": torch.cat(held)} if prediction else {},
    )


def _of_contributions(
    reading: Reading,
    x: Tensor,
    k: int,
    *,
    explainer: Contributions,
    reach: Reach,
    method: Method,
    target: Tensor,
    prediction: bool,
    radii: Sequence[float] | None,
    chunk_size: int | None,
    progress: bool,
) -> Certificate:
    """Lists by contributions: exact for sums over columns, else sets of columns to second order."""
    network, classes = reading.network, len(reading.network.logits.bias)
    obstacle = why_unproven(network, explainer, classes)
    if obstacle is not None:
        raise _unproven(explainer, obstacle)
    not_additive = why_not_additive(network, explainer, classes)
    family, reasons = _choose(network, method, not_additive)
    expanded = why_not_expanded(network)
    if family != "additive" and (expanded is not None or method not in ("auto", family, "quadratic")):
        raise InputError(
            f'method="{method}" does not apply to contributions: '
            f'{expanded or "their sums over sets of columns are expanded"}; use "auto" or "quadratic"'
        )
    Size.of(network, explainer, k, additive=family == "additive").check()
    proofs = Proofs(reading, k, additive=family == "additive", radii=radii)
    parts, held = [], []
    with progress_bar("certify", len(x), progress) as advance, torch.no_grad():
        for part in proofs.chunks(x, target, chunk_size):
            if prediction:
                flat = x[part.rows].detach().double().flatten(1)
                above = other_classes(part.logits.argmax(1), classes)
                held.append(order_radii(network, flat, part.logits, above))
            parts.append(part)
            advance(len(part.limits))
    limits = torch.cat([part.limits for part in parts])
    if prediction:
        limits = torch.minimum(limits, torch.cat(held).unsqueeze(1))
    return Certificate(
        limits=limits,
        method=family if method == "auto" else method,
        methods=(family if family == "additive" else "quadratic",),
        explanation=_explained_by(explainer),
        assumptions=_assumptions(explainer, reach, prediction=prediction),
        reasons=reasons,
        top=torch.cat([part.top for part in parts]),
        lengths=torch.cat([part.lengths for part in parts]) if explainer.positive else None,
        details={"prediction": torch.cat(held)} if prediction else {},
    )


def _unproven(explainer: Explainer, why: str) -> InputError:
    return InputError(
        f'no sound certificate for {explainer!r}: {why}. method="smoothing" certifies the frequencies '
        "of its top features under noise instead"
    )


class _Limits:
    """Limits (N, k) chunk after chunk, with the points of each that attacks found."""

    def __init__(self, bounds: Combined, reading: Reading, points: Tensor | None) -> None:
        self.bounds, self.reading, self.begin = bounds, reading, 0
        self.points = points if bounds.only_at_radii else None

    def __call__(self, problem: Problem) -> Tensor:
        if self.points is None:
            return self.bounds.limits(problem)
        own = self.points[:, self.begin : self.begin + len(problem.target)]
        self.begin += len(problem.target)
        assert self.bounds.radii is not None
        return self.bounds.limits(problem, refuted_at(self.reading, problem, own, sorted(self.bounds.radii)))


def _runner_up_radius(problem: Problem) -> Tensor:
    """The margin is against one class: its gradient jumps where another one becomes the runner-up, (N,)."""
    classes = problem.logits.shape[1]
    if classes <= 2:
        return torch.full_like(problem.logits[:, 0], torch.inf)
    above = other_classes(problem.runner_up, classes, leave=problem.target)
    return order_radii(problem.attributions.network, problem.attributions.x, problem.logits, above)


def _prediction_radius(problem: Problem, tolerance: float) -> Tensor:
    """The radius inside which the predicted class stays, or a single output within the tolerance, (N,)."""
    if single(problem.logits):
        return output_radii(problem.attributions.network, problem.attributions.x, problem.logits, tolerance)
    above = other_classes(problem.logits.argmax(1), problem.logits.shape[1])
    return order_radii(problem.attributions.network, problem.attributions.x, problem.logits, above)


def _choose(network: Network, method: Method, not_additive: str | None) -> tuple[str, dict[str, str]]:
    """The method for a network, and why not the others."""
    if not_additive is None and method in ("auto", "additive"):
        return "additive", {"smoothing": _ABOUT_ANOTHER, "first-order": _NOT_SOUND}
    if method == "additive":
        raise InputError(f'method="additive" does not apply: {not_additive}; use "auto"')
    kinds = {layer.name: type(layer.activation).__name__ for layer in network.layers}
    curved = [layer.name for layer in network.layers if layer.activation and layer.activation.smooth]
    kinked = [layer.name for layer in network.layers if layer.activation and not layer.activation.smooth]
    if curved and kinked:
        raise ModelError(
            f"the network mixes smooth layers ({curved[0]!r}: {kinds[curved[0]]}) with piecewise-linear ones "
            f"({kinked[0]!r}: {kinds[kinked[0]]}); a certificate needs all smooth (r2et.validate.smooth replaces "
            'ReLU, average pooling replaces max-pooling) or all piecewise linear, or method="smoothing"'
        )
    chosen = "piecewise" if kinked else "deterministic"
    other = {
        "deterministic": f"it needs two derivatives, which layer {kinked[0]!r} has not" if kinked else "",
        "piecewise": "it is for networks made of linear pieces"
        + (f", and layer {curved[0]!r} is curved" if curved else "; this one has no hinge at all"),
    }
    if method not in ("auto", "dual", "quadratic", chosen, FAMILIES[chosen]):
        asked = {part: whole for whole, part in FAMILIES.items()}.get(method, method)
        raise InputError(f'method="{method}" does not apply to this network: {other[asked]}; use "{chosen}"')
    reasons = {name: why for name, why in other.items() if name != chosen}
    return chosen, reasons | {"smoothing": _ABOUT_ANOTHER, "first-order": _NOT_SOUND}


def _explained_by(explainer: Explainer) -> str:
    name = {"Gradient": "gradient", "GradientTimesInput": "gradient times input"}.get(type(explainer).__name__)
    if isinstance(explainer, SmoothGrad):
        name = (
            f"mean gradient over {explainer.samples} fixed noise vectors (SmoothGrad, sigma {explainer.sigma:g}, "
            f"seed {explainer.seed})"
        )
    order = "signed value" if explainer.reduce == "signed" else "magnitude"
    if isinstance(explainer, ColumnEffects):
        return f"the effects of {len(explainer.columns)} columns on the {explainer.score}, by {order}"
    if isinstance(explainer, Contributions):
        order = "signed value, positive ones alone" if explainer.positive else order
        return (
            f"the contributions of {len(explainer.columns)} columns to the {explainer.score}, beside a background "
            f"of {len(explainer.background)} rows (sha256 {explainer.background.sha256[:8]}), by {order}"
            + (f", without {', '.join(explainer.exclude)}" if explainer.exclude else "")
        )
    same = " (the log-odds rank in the same way)" if explainer.score == "probability" else ""
    return f"the {name} of the {explainer.score}{same}, by {order}"


def _assumptions(explainer: Explainer, reach: Reach, *, prediction: bool) -> tuple[str, ...]:
    assumptions = [in_words(reach)]
    if explainer.score != "output":
        assumptions.append("the explained class is held fixed at that of the clean input")
    if not prediction:
        assumptions.append("the prediction itself may change inside the radius: prediction=True certifies it too")
    assumptions.append("float64 with bounds inflated by 1e-9; rounding is not directed")
    if isinstance(explainer, SmoothGrad):
        assumptions.append("the noise vectors are fixed, as this explainer has them")
    return tuple(assumptions)
