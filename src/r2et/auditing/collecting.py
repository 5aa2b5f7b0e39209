"""From the chunks of a run to an Audit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from r2et import metrics
from r2et.attacks import Attack
from r2et.auditing.inputs import Outcome
from r2et.auditing.lists import count_lists, movable_features
from r2et.auditing.own_rows import OwnRows, join_moves
from r2et.auditing.parts import AuditRun, Part
from r2et.auditing.planning import Plan
from r2et.auditing.provenance import background_of
from r2et.auditing.result import AttackRow, Audit
from r2et.auditing.samples import Picture, Samples
from r2et.certificates import Bracket, Certificate
from r2et.certificates.both_ends import join_brackets
from r2et.explainers.by_columns import ByColumns
from r2et.scores import single


def collect(plan: Plan, run: AuditRun) -> Audit:
    """The audit of the rows that are done."""
    parts = run.parts
    done = sum(len(part.samples) for part in parts)
    figures = _figures(run.logits[:done], plan.y[:done], plan.options.outcome)
    brackets = [part.bracket for part in parts if part.bracket is not None]
    bracket = join(brackets) if brackets else None
    certificate = None if bracket is None else bracket.certificate
    samples = join_samples([part.samples for part in parts], plan.row_names[:done], run.pictures)
    explainer = plan.explainer
    individuality, kappas = count_lists(
        samples,
        run.features,
        bracket=bracket,
        signed=explainer.reduce == "signed",
        seed=plan.options.seed,
    )
    movable = movable_features(plan.reach.movable, explainer, plan.x, run.features)
    return Audit(
        rows=done,
        features=run.features,
        k=plan.options.k,
        **figures,
        thickness=torch.cat([part.thickness for part in parts]).detach().cpu(),
        attacks=_attack_rows(plan, parts),
        faithfulness=_faithfulness(parts, done),
        validation=run.validation,
        settings=replace(plan.settings, uncertified=run.uncertified),
        name=plan.options.name,
        feature_names=run.names.ranked,
        input_names=run.names.inputs,
        class_names=run.names.classes,
        layout=plan.options.layout,
        requested=len(plan.x),
        certificate=certificate,
        bracket=bracket,
        samples=samples,
        individuality=individuality,
        kappas=kappas,
        movable=1.0 if movable is None else individuality.movable_share(movable),
        notes=plan.notes,
        **_for_people(plan, parts, done),
    )


def _for_people(plan: Plan, parts: Sequence[Part], done: int) -> dict[str, Any]:
    """What an audit knows besides figures: units, target, background."""
    explainer, background = plan.explainer, background_of(plan.explainer)
    moved = [part.moves for part in parts if part.moves is not None]
    own = None
    if plan.units is not None and plan.x.ndim == 2 and plan.x.shape[1] == plan.units.features:
        own = OwnRows(plan.units, plan.x[:done], join_moves(moved) if moved else None)
    return {
        "by_columns": isinstance(explainer, ByColumns),
        "direction": "positive" if explainer.positive else "signed" if explainer.reduce == "signed" else "",
        "target": plan.target,
        "own": own,
        "background": None if background is None else {"rows": len(background), "sha256": background.sha256},
    }


def _figures(logits: Tensor, labels: Tensor, outcome: Outcome | None) -> dict[str, Any]:
    """How well the model predicts: accuracy and AUC, or R2 and the mean absolute error."""
    several = len(labels.unique()) > 1
    if single(logits):
        assert outcome is not None
        return {
            "accuracy": float("nan"),
            "auc": float("nan"),
            "r2": metrics.r2_of_outputs(logits, labels) if several else float("nan"),
            "mae": metrics.mae_of_outputs(logits, labels) * outcome.scale,
            "outcome": outcome,
        }
    return {
        "accuracy": float((logits.argmax(1) == labels).double().mean()),
        "auc": metrics.auc_of_logits(logits, labels) if several else float("nan"),
    }


def _faithfulness(parts: Sequence[Part], rows: int) -> dict[str, float]:
    """Means over all rows, from the means of the chunks."""
    return {
        key: sum(part.faithfulness[key] * (len(part.samples) / rows) for part in parts)
        for key in parts[0].faithfulness
    }


def _attack_rows(plan: Plan, parts: Sequence[Part]) -> list[AttackRow]:
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


def _titles(attacks: Sequence[Attack]) -> list[str]:
    """The names of attacks, with a number where two are of one class."""
    names = [type(attack).__name__ for attack in attacks]
    seen: Counter[str] = Counter()
    titles = []
    for name in names:
        seen[name] += 1
        titles.append(f"{name} {seen[name]}" if names.count(name) > 1 else name)
    return titles


def join_samples(parts: Sequence[Samples], row_names: Sequence[str], pictures: Sequence[Picture]) -> Samples:
    """The samples of all rows."""

    def rows(name: str, axis: int = 0) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts], axis)

    def total(name: str) -> Tensor:
        return torch.stack([getattr(part, name) for part in parts]).sum(0)

    by_row = ("labels", "predicted", "probability", "top", "top_scores", "moved", "moved_from", "moved_by")
    by_radius = ("after", "after_scores", "precision", "distance", "noise")
    return Samples(
        radii=parts[0].radii,
        **{name: rows(name) for name in (*by_row, "certified")},
        **{name: rows(name, 1) for name in by_radius},
        **{name: total(name) for name in ("in_top", "leaves", "enters")},
        row_names=tuple(row_names),
        pictures=tuple(pictures),
    )


def join(parts: Sequence[Bracket]) -> Bracket:
    """One bracket of all rows that have one."""
    return join_brackets(parts, join_certificates([part.certificate for part in parts]))


def join_certificates(parts: Sequence[Certificate]) -> Certificate:
    """One certificate of all rows; all are of one method."""
    first = parts[0]
    lengths = [part.lengths for part in parts if part.lengths is not None]
    return Certificate(
        limits=torch.cat([part.limits for part in parts]),
        method=first.method,
        explanation=first.explanation,
        sound=first.sound,
        assumptions=first.assumptions,
        reasons=first.reasons,
        methods=first.methods,
        lengths=torch.cat(lengths) if lengths else None,
    )
