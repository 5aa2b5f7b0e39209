"""`bracket`: both ends at every radius, for the same explanation, threat and attacker."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn

from r2et.attacks import ATTACKS, Attack, AttackResult, Task, WorstCase
from r2et.attacks.attack import Keep
from r2et.attacks.inspected import InspectedModel
from r2et.attacks.result import better
from r2et.certificates.both_ends import SAME, Bracket, Prediction
from r2et.certificates.certificate import Certificate
from r2et.certificates.choice import Method, certify_within
from r2et.certificates.exchange import Hints, places_to_start
from r2et.domain import Domain, Reach, Threat, under_threat
from r2et.errors import InputError
from r2et.explainers import Explainer, Gradient
from r2et.numerics.checks import check_inputs
from r2et.numerics.modes import copied
from r2et.numerics.once import looking_once
from r2et.numerics.preflight import check_module, dtype_mismatch, measuring
from r2et.numerics.values import (
    check_choice,
    check_chunk_size,
    check_count,
    check_flag,
    check_kind,
    check_radii,
    check_seed,
)

#: which iterates of an attack count
KEEP: dict[Prediction, Keep] = {"kept": "best", "free": "any"}


def bracket(
    model: nn.Module,
    x: Tensor,
    k: int,
    *,
    radii: Sequence[float],
    explainer: Explainer | None = None,
    domain: Domain | None = None,
    threat: Threat | None = None,
    prediction: Prediction = "kept",
    attack: str | type[Attack] | Attack | None = None,
    method: Method = "auto",
    budget: int | None = None,
    seed: int = 0,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Bracket:
    """What is proven of P@k and what an attack leaves of it, at every radius: the truth lies between the two.

    Both ends are about one explanation, that of the class which is predicted for the clean input, one threat, and
    the model in float64: a model in float32 is copied and attacked in float64 too. The attack and the proof help
    each other: places to which the dual bound leads are starts of the attack, and nobody tries to prove what the
    attack refutes.

    Args:
        model: maps (N, *features) to logits (N, C), in evaluation mode.
        x: (N, *features).
        k: size of the salient set.
        radii: L2 budgets.
        explainer: None = Gradient.
        domain: what exists.
        threat: what may move: "domain", "tangent" or "paper", see `certify`. None = "domain" where a domain is
            known, else "paper".
        prediction: "kept": the attack must keep the predicted class; what is proven holds even for attackers who
            change it. "free": the attack may change it: both ends are about exactly the same attackers.
        attack: a name, a class or an object, which gets k, the radii, the explainer and the prediction from here;
            None = WorstCase with its standard budget.
        method: of `certify`, other than "smoothing" and "first-order".
        budget: of `certify`: cuts of a ball for each functional that the dual bound leaves open.
        seed: of everything that the attack draws.
        chunk_size: how many inputs at once; None = what suits each end.
        progress: show progress bars.

    >>> model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> both = bracket(model, torch.randn(4, 6), k=2, radii=[0.1, 0.5], attack="boundary")
    >>> both.proven.shape, bool((both.proven <= both.attacked).all())
    (torch.Size([4, 2]), True)
    >>> both.threat, both.prediction, both.attack
    ('paper', 'kept', 'BoundaryAttack with starts from the dual bound')
    """
    check_inputs(x)
    explainer = Gradient() if explainer is None else explainer
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    _check_options(k, prediction, method, seed, chunk_size, progress)
    rising = tuple(sorted({float(radius) for radius in check_radii(radii)}))
    check_module(model)
    if (mismatch := dtype_mismatch(model, x)) is not None:
        raise InputError(mismatch)
    chosen = _chosen(attack, k=k, radius=rising[-1], explainer=explainer, keep=KEEP[prediction])
    exact, reach = under_threat(copied(model).double(), x.double(), domain, threat, inputs=explainer.inputs)
    points = x.detach().double()
    with looking_once(), measuring(exact, points):
        # an explanation without a proof is refused before anything is attacked
        certify_within(exact, points[:1], k, reach=reach, explainer=explainer, method=method, radii=rising[:1])
        hints = places_to_start(exact, points, k, reach=reach, explainer=explainer, radii=rising)
        tasks = _tasks(chosen, exact, points, hints, reach=reach, seed=seed, chunk_size=chunk_size)
        found = _attacked(chosen, tasks, rising, hinted=hints is not None, progress=progress)
        certificate = certify_within(
            exact,
            points,
            k,
            reach=reach,
            explainer=explainer,
            method=method,
            radii=rising,
            budget=budget,
            chunk_size=chunk_size,
            progress=progress,
            points=torch.stack([result.x for result in found]),
        )
        if method == "auto":
            certificate = _with_enclosures(certificate, exact, points, found, reach=reach, explainer=explainer)
    name = named(chosen) + (" with starts from the dual bound" if hints is not None else "")
    return assembled(certificate, found, rising, attack=name, threat=reach.threat, prediction=prediction)


def _check_options(
    k: int, prediction: str, method: str, seed: int, chunk_size: int | None, *progress: bool
) -> None:
    check_count("k", k)
    check_choice("prediction", prediction, get_args(Prediction))
    proofs = [name for name in get_args(Method) if name not in ("smoothing", "first-order")]
    check_choice("method", method, proofs)
    check_seed(seed)
    check_chunk_size(chunk_size)
    check_flag("progress", progress[0])


def _chosen(attack: str | type[Attack] | Attack | None, **settings: Any) -> Attack:
    """The attack with the settings of the bracket."""
    return cast("Attack", ATTACKS.create(WorstCase if attack is None else attack, norm="l2", **settings))


def _tasks(
    attack: Attack,
    model: nn.Module,
    x: Tensor,
    hints: Tensor | None,
    *,
    reach: Reach,
    seed: int,
    chunk_size: int | None,
) -> list[Task]:
    """What is attacked, chunk by chunk."""
    known = InspectedModel(model, x)
    size = int(chunk_size or len(x))
    places = [None] * -(-len(x) // size) if hints is None else hints.split(size)
    return [
        Task.prepare(attack, model, part, reach=reach, seed=seed, inspected=known, hints=own)
        for part, own in zip(x.split(size), places, strict=True)
    ]


def _attacked(
    attack: Attack, tasks: Sequence[Task], radii: Sequence[float], *, hinted: bool, progress: bool
) -> list[AttackResult]:
    """What the attack found at each radius, or the hints themselves where they are worse."""
    found = attack.on(tasks, radii, progress=progress)
    if not hinted:
        return found
    shared: dict[str, Any] = {name: getattr(attack, name) for name in ("k", "radius", "explainer", "keep")}
    hints = Hints(**shared, cap=attack.cap, predictions=attack.predictions).on(tasks, radii)
    return [better(one, other, nearest=False) for one, other in zip(hints, found, strict=True)]


def _with_enclosures(
    certificate: Certificate,
    model: nn.Module,
    x: Tensor,
    found: Sequence[AttackResult],
    *,
    reach: Reach,
    explainer: Explainer,
) -> Certificate:
    """A certificate at radii with what integrals prove beyond it, for inputs that are still open somewhere.

    On smooth networks that hardly bend the integral can reach farther than the dual bound, and it is quick.
    """
    if certificate.radii is None or certificate.method != "deterministic":
        return certificate
    attacked = torch.stack([result.precision for result in found], 1).double()
    proven = torch.stack([certificate.precision_at(radius) for radius in certificate.radii], 1)
    rows = (proven < attacked - SAME).any(1).nonzero().squeeze(1)
    if not len(rows):
        return certificate
    more = certify_within(model, x[rows], certificate.k, reach=reach, explainer=explainer, method="integral")
    return larger(certificate, more, rows)


def larger(first: Certificate, second: Certificate, rows: Tensor) -> Certificate:
    """The first certificate with the larger limits of both for some of its inputs, int64 (M,): both hold."""
    limits = first.limits.clone()
    limits[rows] = torch.maximum(limits[rows], second.limits)
    methods = tuple(dict.fromkeys([*first.methods, *second.methods]))
    return replace(first, limits=limits, methods=methods, radii=None)


def named(attack: Attack) -> str:
    """An attack by its recipe and budget, or its class."""
    return f"{attack.recipe} ({attack.budget})" if isinstance(attack, WorstCase) else type(attack).__name__


def judged_in_float64(
    model: nn.Module,
    x: Tensor,
    attack: Attack,
    found: Sequence[AttackResult],
    *,
    reach: Reach,
    radii: Sequence[float],
) -> list[AttackResult]:
    """What points that were found in another precision are worth in float64, at each of the radii.

    Each point is brought into its ball and into reach once more: what was outside by the rounding of float32 is
    inside. What a smaller radius found counts at every larger one.

    Args:
        model: what is explained under the threat, in any precision.
        x: clean inputs, (N, *features).
        attack: that found the points; its k, explainer and keep count.
        found: at each of the radii.
        reach: what may be perturbed.
        radii: rising.
    """
    exact, clean = copied(model).double(), x.detach().double()
    judge = Hints(k=attack.k, radius=max(radii), explainer=attack.explainer, keep=attack.keep)
    points = torch.stack([result.x.double() for result in found], 1)
    with measuring(exact, clean):
        return judge.on([Task.prepare(judge, exact, clean, reach=reach, hints=points)], radii)


def assembled(
    certificate: Certificate,
    found: Sequence[AttackResult],
    radii: Sequence[float],
    *,
    attack: str,
    threat: Threat,
    prediction: Prediction,
) -> Bracket:
    """A bracket from its two ends; a ContradictionError if they contradict each other."""
    return Bracket(
        radii=tuple(radii),
        proven=torch.stack([certificate.precision_at(radius) for radius in radii], 1),
        attacked=torch.stack([result.precision for result in found], 1),
        distance=torch.stack([result.distance for result in found], 1),
        certificate=certificate,
        attack=attack,
        threat=threat,
        prediction=prediction,
        points=torch.stack([result.x for result in found], 1),
    )
