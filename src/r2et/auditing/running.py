"""`audit`: plan, run, collect."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from r2et.attacks import Attack
from r2et.attacks.worst_case import Budget
from r2et.auditing.chunks import run
from r2et.auditing.collecting import collect
from r2et.auditing.inputs import Layout, Outcome
from r2et.auditing.planning import Options, make_plan
from r2et.auditing.result import Audit
from r2et.domain import Domain, Threat
from r2et.explainers import Explainer
from r2et.numerics.once import looking_once

if TYPE_CHECKING:
    from r2et.tables.rows import Inputs, Labels


def audit(
    model: nn.Module,
    x: "Inputs",
    y: "Labels | None" = None,
    *,
    k: int = 8,
    radii: Iterable[float] | None = None,
    explainer: Explainer | None = None,
    domain: Domain | None = None,
    threat: Threat | None = None,
    steps: int = 200,
    budget: Budget = "standard",
    seed: int = 0,
    chunk_size: int | None = None,
    progress: bool = False,
    feature_names: Iterable[Any] | None = None,
    class_names: Iterable[Any] | None = None,
    row_names: Iterable[Any] | None = None,
    layout: Layout | None = None,
    name: str = "",
    certificate: bool = True,
    attacks: Sequence[str | type[Attack] | Attack] | None = None,
    outcome: Outcome | None = None,
) -> Audit:
    """Measure, attack and certify the explanations of a model.

    Ctrl-C keeps what is done: the audit of the finished rows is returned, with `complete` False.

    Args:
        model: maps (N, *features) to logits (N, C), or to one output (N, 1) that predicts a number; it is audited
            in evaluation mode.
        x: (N, *features), a tensor, an array, a frame of numbers, or `r2et.tables.Rows`, which have y and names.
        y: class numbers (N,), an int64 tensor, an array or a series; for a model with one output numbers.
        k: size of the salient set.
        radii: L2 budgets of the attacks, in the units of x; None = 0.1, 0.3 and 1 times the standard deviation of
            a typical feature.
        explainer: None = ColumnEffects for `Rows` that know their columns, whose names are ranked then, under the
            threat "domain"; else Gradient.
        domain: the inputs that exist; None = that of the `Rows`.
        threat: what an attacker may do in it, "domain", "tangent" or "paper": see `r2et.domain.Reach`. None =
            "domain" where a domain is known, else "paper".
        steps: of ERAttack, MSEAttack and attacks of their kind (subclasses of GradientDescentAttack).
        budget: of WorstCase, whose figure is the one to report: "fast", "standard" or "thorough".
        seed: of everything that is drawn. What is found for a row does not depend on the rows beside it.
        chunk_size: at most this many rows are attacked at once.
        progress: show a progress bar with a time estimate.
        feature_names: of the features of one input (or of what is ranked); None = a frame's columns, the layout's
            names, or numbers.
        class_names: in the order of the logits.
        row_names: what the rows are called; None = a frame's index, or their numbers.
        layout: how the features of one input lie: an `r2et.data.ImageLayout` gives pictures in the report.
        name: of the model, for the report.
        certificate: certify the rows too (a sample of them if the network is large), where a sound method applies.
        attacks: which are shown beside noise and the worst case, and count in the worst case too: names,
            `package.module:Class`, classes, or objects, which get k, radii and explainer of the audit. None =
            ERAttack and MSEAttack, and the worst case is WorstCase's recipe.
        outcome: what number a model with one output predicts, and how far it may move while it counts as kept;
            None = its output, and a tenth of the standard deviation of y.

    >>> import torch
    >>> from r2et import models
    >>> x = torch.randn(20, 5)
    >>> report = audit(models.Linear(5, 2), x, (x[:, 0] > 0).long(), k=2, radii=(0.5,), budget="fast")
    >>> report.verdict()
    'P@2 at radius 0.5: [100.0, 100.0] %, proven and attacked. It is one list for everybody (two share 100 %): it
    says nothing about a single input. No attack changed any of the top 2 features of any of the 20 inputs, up to
    radius 0.5. None can, at any radius: it is certified.'
    """
    options = Options(
        k=k,
        radii=radii,
        explainer=explainer,
        domain=domain,
        threat=threat,
        steps=steps,
        budget=budget,
        seed=seed,
        chunk_size=chunk_size,
        progress=progress,
        feature_names=feature_names,
        class_names=class_names,
        row_names=row_names,
        layout=layout,
        name=name,
        certificate=certificate,
        attacks=attacks,
        outcome=outcome,
    )
    with looking_once():
        plan = make_plan(model, x, y, options)
        carried_out = run(plan)
        return collect(carried_out.plan, carried_out)
