"""`audit`: the rows in chunks, each of them attacked, measured and certified; an interrupt keeps what is done."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor, nn

from r2et import metrics, validate
from r2et.attacks import ATTACKS, Attack, ERAttack, GradientDescentAttack, MSEAttack, NoiseAttack, WorstCase
from r2et.attacks.worst_case import Budget
from r2et.auditing.certifying import Certifier
from r2et.auditing.chunks import Plan
from r2et.auditing.collecting import Part, join_certificates, join_samples
from r2et.auditing.inputs import Layout, choose_radii, read_names, read_rows, typical_spread
from r2et.auditing.result import AttackRow, Audit
from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.explainers import Explainer, Gradient
from r2et.numerics.attention import math_attention
from r2et.numerics.checks import check_labels, check_logits
from r2et.numerics.preflight import check_module, measuring
from r2et.numerics.values import (
    check_choice,
    check_chunk_size,
    check_count,
    check_flag,
    check_k,
    check_kind,
    check_seed,
    check_text,
    quoted,
)

if TYPE_CHECKING:
    from r2et.auditing.inputs import Inputs, Labels

#: values of inputs in a chunk, and rows: an interrupt loses the chunk it falls into
VALUES_AT_ONCE, ROWS_AT_ONCE = 2**16, 512
#: values of inputs that the model is checked on
CHECKED = 2**22


def audit(
    model: nn.Module,
    x: "Inputs",
    y: "Labels",
    k: int = 8,
    radii: Iterable[float] | None = None,
    explainer: Explainer | None = None,
    domain: Domain | None = None,
    steps: int = 200,
    budget: Budget = "standard",
    seed: int = 0,
    chunk_size: int | None = None,
    progress: bool = False,
    *,
    feature_names: Iterable[Any] | None = None,
    class_names: Iterable[Any] | None = None,
    layout: Layout | None = None,
    name: str = "",
    certificate: bool = True,
    attacks: Sequence[str | type[Attack] | Attack] | None = None,
) -> Audit:
    """Measure, attack and certify the explanations of a model.

    Ctrl-C keeps what is done: the audit of the finished rows is returned, with `complete` False.

    Args:
        model: maps (N, *features) to logits (N, C); it is audited in evaluation mode.
        x: (N, *features), a tensor, an array, or a frame of numbers.
        y: class numbers (N,), an int64 tensor, an array or a series.
        k: size of the salient set.
        radii: L2 budgets of the attacks, in the units of x; None = 0.1, 0.3 and 1 times the standard deviation of
            a typical feature.
        explainer: None = Gradient.
        domain: what an attack may perturb.
        steps: of ERAttack, MSEAttack and attacks of their kind (subclasses of GradientDescentAttack).
        budget: of WorstCase, whose figure is the one to report: "fast", "standard" or "thorough".
        seed: of everything that is drawn. What is found for a row does not depend on the rows beside it.
        chunk_size: at most so many rows are attacked at once.
        progress: show a progress bar with a time estimate.
        feature_names: of the features of one input (or of what is ranked); None = a frame's columns, the layout's
            names, or numbers.
        class_names: in the order of the logits.
        layout: how the features of one input lie: an `r2et.data.ImageLayout` gives pictures in the report.
        name: of the model, for the report.
        certificate: certify the rows too (a sample of them if the network is large), where a sound method applies.
        attacks: which are shown beside noise and the worst case, and count in the worst case too: names,
            `package.module:Class`, classes, or objects, which get k, radii and explainer of the audit. None =
            ERAttack and MSEAttack, and the worst case is WorstCase's recipe.

    >>> from r2et import models
    >>> x = torch.randn(20, 5)
    >>> report = audit(models.Linear(5, 2), x, (x[:, 0] > 0).long(), k=2, radii=(0.5,), budget="fast")
    >>> report.verdict()
    'No attack changed any of the top 2 features of any of the 20 inputs, up to radius 0.5. None can, at any
    radius: it is certified.'
    """
    check_module(model)
    explainer = Gradient() if explainer is None else explainer
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    if domain is not None:
        check_kind("domain", domain, Domain, "r2et.Domain(lower=0.0)")
    if layout is not None:
        check_kind(
            "layout", layout, (ImageLayout, GraphLayout), "r2et.data.ImageLayout((1, 28, 28), (0.1,), (0.3,))"
        )
    for key, count in (("k", k), ("steps", steps)):
        check_count(key, count)
    check_seed(seed)
    # figures are written as JSON, which knows Python's numbers alone
    k, steps, seed = int(k), int(steps), int(seed)
    check_choice("budget", budget, get_args(Budget))
    check_chunk_size(chunk_size)
    check_text("name", name)
    for key, flag in (("progress", progress), ("certificate", certificate)):
        check_flag(key, flag)
    rows = read_rows(x, y, model)
    explainer.check_shape(rows.x)
    spread = typical_spread(rows.x, domain, explainer.inputs)
    radii, reason = choose_radii(radii, spread)
    budgets = sorted(set(radii))
    size = min(chunk_size or ROWS_AT_ONCE, ROWS_AT_ONCE, max(8, VALUES_AT_ONCE // rows.x[0].numel()))
    chosen, worst = _attacks(attacks, steps, budget, k=k, radius=max(radii), explainer=explainer)
    # attention has a second derivative by the math kernel alone
    with math_attention(), measuring(model, rows.x):
        logits = _logits(model, rows.x, size)
        check_labels(rows.y, len(rows.x), logits.shape[1])
        features = explainer(model, rows.x[:1]).shape[-1]
        check_k(k, features)
        names = read_names(
            feature_names if feature_names is not None else rows.columns or None,
            class_names,
            layout,
            explainer,
            features,
            rows.x[0].numel() // explainer.inputs,
            logits.shape[1],
        )
        plan = Plan(
            model=model,
            x=rows.x,
            y=rows.y,
            logits=logits,
            k=k,
            explainer=explainer,
            domain=domain,
            radii=budgets,
            seed=seed,
            attacks=[*chosen, worst],
            certifier=Certifier(model, rows.x, k, explainer, certificate),
            layout=layout if isinstance(layout, ImageLayout) else None,
        )
        few = max(64, CHECKED // rows.x[0].numel())
        validation = validate.check(model, rows.x[:few], k=k, explainer=explainer)
        parts, pictures = plan.run(size, progress)
        done = sum(len(part.samples) for part in parts)
        seen = rows.y[:done]
        found = [part.certificate for part in parts if part.certificate is not None]
        return Audit(
            rows=done,
            features=features,
            k=k,
            accuracy=float((logits[:done].argmax(1) == seen).double().mean()),
            auc=metrics.auc(model, rows.x[:done], seen, size) if len(seen.unique()) > 1 else float("nan"),
            thickness=torch.cat([part.thickness for part in parts]),
            attacks=_attack_rows(plan, parts),
            faithfulness={
                key: sum(part.faithfulness[key] * (len(part.samples) / done) for part in parts)
                for key in parts[0].faithfulness
            },
            validation=validation,
            settings={
                "radii": list(radii),
                "radii reason": reason,
                "scale": spread,
                "attacks": [repr(attack) for attack in plan.attacks],
                "steps": steps,
                "budget": budget,
                "seed": seed,
                "explainer": repr(explainer),
                "thickness": plan.sigma,
                "certificate": plan.certifier.reason,
                **({} if attacks is None else {"recipe": worst.recipe}),
            },
            name=name,
            feature_names=names.ranked,
            input_names=names.inputs,
            class_names=names.classes,
            layout=layout,
            requested=len(rows.x),
            certificate=join_certificates(found) if found else None,
            samples=join_samples([part.samples for part in parts], rows.index[:done], pictures),
        )


def _attacks(
    own: Sequence[str | type[Attack] | Attack] | None, steps: int, budget: Budget, **shared: Any
) -> tuple[list[Attack], WorstCase]:
    """Noise and those that were asked for; and the worst case."""
    noise = NoiseAttack(**shared)
    if own is None:
        plain = ERAttack(**shared, steps=steps), MSEAttack(**shared, steps=steps)
        return [noise, *plain], WorstCase(**shared, budget=budget)
    if isinstance(own, str) or not isinstance(own, Iterable):
        raise InputError(f'attacks must be a list such as ["er", "mse"], got attacks={quoted(own)}')
    built: list[Attack] = []
    for attack in own:
        kind = type(attack) if isinstance(attack, Attack) else ATTACKS.find(attack).thing
        if kind in (NoiseAttack, WorstCase):
            raise InputError(f"{kind.__name__} is in every audit: leave it out of attacks")
        count = issubclass(kind, GradientDescentAttack) and not isinstance(attack, Attack)
        # the norm and what is kept are those of every figure of an audit
        same = {**shared, "norm": "l2", "keep": "best", **({"steps": steps} if count else {})}
        built.append(ATTACKS.create(attack, **same))
    return [noise, *built], WorstCase(**shared, budget=budget, members=["worst-case", *built] if built else None)


def _titles(attacks: Sequence[Attack]) -> list[str]:
    """The names of attacks, with a number where two are of one class."""
    names = [type(attack).__name__ for attack in attacks]
    seen: Counter[str] = Counter()
    titles = []
    for name in names:
        seen[name] += 1
        titles.append(f"{name} {seen[name]}" if names.count(name) > 1 else name)
    return titles


def _logits(model: nn.Module, x: Tensor, size: int) -> Tensor:
    with torch.no_grad():
        parts = [model(part) for part in x.split(size)]
    if not isinstance(parts[0], Tensor) or parts[0].ndim != 2:
        check_logits(parts[0], len(x[:size]))
    # judged together: a single row of logits can look like probabilities by chance
    logits = torch.cat(parts)
    check_logits(logits, len(x))
    return logits


def _attack_rows(plan: Plan, parts: list[Part]) -> list[AttackRow]:
    precision, displaced, kept, distance = (
        torch.cat([getattr(part, name) for part in parts], dim=2)
        for name in ("precision", "displaced", "kept", "distance")
    )
    return [
        AttackRow(
            attack=title,
            radius=radius,
            precision=float(precision[a, r].mean()),
            displaced=float(displaced[a, r].mean()),
            changed=float((precision[a, r] < 1).double().mean()),
            sensitivity=float((~kept[a, r]).double().mean()),
            distance=float(distance[a, r].mean()),
        )
        for r, radius in enumerate(plan.radii)
        for a, title in enumerate(_titles(plan.attacks))
    ]
