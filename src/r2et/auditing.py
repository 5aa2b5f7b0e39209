"""One call: a model and data in, everything r2et can say about its explanations out, side by side."""

import textwrap
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from r2et import metrics, validate
from r2et._checks import InputError, check_inputs, check_k, check_labels, check_logits, check_positive
from r2et.attacks import Attack, AttackResult, Domain, ERAttack, MSEAttack, NoiseAttack, WorstCase
from r2et.attacks.worst_case import Budget
from r2et.explain import Activation, Explainer, Gradient
from r2et.explain.base import evaluating
from r2et.stability import GaussianNeighbours, thickness

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class AttackRow:
    """One attack at one radius, over all rows.

    Attributes:
        attack: its name.
        radius: its L2 budget.
        precision: mean P@k.
        displaced: mean number of the k features that were replaced.
        changed: share of rows that lost at least one of their k features.
        sensitivity: share of rows whose prediction changed (0 for attacks that keep it).
        distance: mean L2 norm of the perturbations.
    """

    attack: str
    radius: float
    precision: float
    displaced: float
    changed: float
    sensitivity: float
    distance: float


@dataclass(frozen=True)
class Audit:
    """What `audit` found.

    Attributes:
        rows: how many inputs were audited.
        features: how many features are ranked.
        k: size of the salient set.
        accuracy: share of correct predictions.
        auc: area under the ROC curve (cAUC); NaN if the labels hold one class only.
        thickness: probability thickness of each input (N,), around it at the smallest radius.
        attacks: one entry for each attack and radius.
        faithfulness: means of DFFOT, COMP and SUFF; empty for an explanation of neurons, which cannot be removed
            from an input. With more than 200 features K is the paper's 1, 5, 10, 20 and 50 % of them (App. B.1.4).
        validation: what `r2et.validate.check` found.
        settings: how all of it was computed.
    """

    rows: int
    features: int
    k: int
    accuracy: float
    auc: float
    thickness: Tensor = field(repr=False)
    attacks: list[AttackRow]
    faithfulness: dict[str, float]
    validation: validate.Report = field(repr=False)
    settings: dict[str, Any] = field(repr=False)

    def verdict(self) -> str:
        """The worst finding in one sentence, computed from the figures."""
        worst = max(self.attacks, key=lambda row: row.displaced)
        if worst.displaced == 0:
            return (
                f"No attack changed any of the top {self.k} features of any of the {self.rows} inputs, "
                f"up to radius {max(row.radius for row in self.attacks):g}."
            )
        return (
            f"A change of norm at most {worst.radius:g} that keeps the prediction replaces at least one of the "
            f"top {self.k} features for {worst.changed:.0%} of the inputs, {worst.displaced:.1f} of {self.k} on "
            f"average ({worst.attack})."
        )

    def summary(self) -> str:
        """The audit as text, readable at 80 columns."""
        lines = [
            textwrap.fill(self.verdict(), 80),
            "",
            f"{self.rows} inputs, {self.features} features, k = {self.k}",
            f"accuracy {self.accuracy:.4f}   AUC {self.auc:.4f}   thickness {float(self.thickness.mean()):.4f}",
            "   ".join(f"{name} {value:.3f}" for name, value in self.faithfulness.items()),
            "",
            f"{'attack':12} {'radius':>7} {'P@' + str(self.k):>7} {'displaced':>10} {'inputs changed':>15} "
            f"{'distance':>9}",
        ]
        lines += [
            f"{row.attack:12} {row.radius:7g} {100 * row.precision:7.1f} {row.displaced:10.2f} "
            f"{row.changed:15.1%} {row.distance:9.3f}"
            for row in self.attacks
        ]
        return "\n".join([*lines, "", self.validation.summary()])

    def to_frame(self) -> "pd.DataFrame":
        """One row for each attack and radius."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.attacks])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return {
            "verdict": self.verdict(),
            "rows": self.rows,
            "features": self.features,
            "k": self.k,
            "accuracy": self.accuracy,
            "auc": None if self.auc != self.auc else self.auc,
            "thickness": {
                "mean": float(self.thickness.mean()),
                "minimum": float(self.thickness.min()),
                "values": self.thickness.tolist(),
            },
            "attacks": [asdict(row) for row in self.attacks],
            "faithfulness": self.faithfulness,
            "validation": self.validation.to_dict(),
            "settings": self.settings,
        }


def audit(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    k: int = 8,
    radii: tuple[float, ...] = (0.1, 0.3, 1.0),
    explainer: Explainer | None = None,
    domain: Domain | None = None,
    steps: int = 200,
    budget: Budget = "standard",
    seed: int = 0,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Audit:
    """Measure and attack the explanations of a model.

    Args:
        model: maps (N, *features) to logits (N, C); it is audited in evaluation mode.
        x: (N, *features).
        y: class labels, int64 (N,).
        k: size of the salient set.
        radii: L2 budgets of the attacks, in the units of x.
        explainer: None = Gradient.
        domain: what an attack may perturb.
        steps: of ERAttack and MSEAttack.
        budget: of WorstCase, whose figure is the one to report: "fast", "standard" or "thorough".
        seed: of everything that is drawn.
        chunk_size: how many rows are attacked at once.
        progress: show progress bars.

    >>> from r2et import models
    >>> x = torch.randn(20, 5)
    >>> report = audit(models.Linear(5, 2), x, (x[:, 0] > 0).long(), k=2, radii=(0.5,), budget="fast")
    >>> report.verdict()
    'No attack changed any of the top 2 features of any of the 20 inputs, up to radius 0.5.'
    """
    check_inputs(x)
    if not radii:
        raise InputError("radii is empty: name at least one attack radius")
    for radius in radii:
        check_positive("radius", radius)
    explainer = explainer or Gradient()
    with evaluating(model):
        with torch.no_grad():
            logits = model(x)
        check_logits(logits, len(x))
        check_labels(y, len(x), logits.shape[1])
        features = explainer(model, x[:1]).shape[-1]
        check_k(k, features)
        validation = validate.check(model, x, k=k, explainer=explainer)
        shared: dict[str, Any] = {"k": k, "radius": max(radii), "explainer": explainer}
        attacks: list[Attack] = [
            NoiseAttack(**shared),
            ERAttack(**shared, steps=steps),
            MSEAttack(**shared, steps=steps),
            WorstCase(**shared, budget=budget),
        ]
        budgets = sorted(set(radii))
        found = [
            attack(model, x, domain=domain, seed=seed, chunk_size=chunk_size, progress=progress, radii=budgets)
            for attack in attacks
        ]
        rows = [
            _attack_row(attack, radius, results[number])
            for number, radius in enumerate(budgets)
            for attack, results in zip(attacks, found, strict=True)
        ]
        thick = thickness(
            model,
            x,
            k,
            explainer=explainer,
            neighbours=GaussianNeighbours(min(radii) / x[0].numel() ** 0.5),
            generator=torch.Generator(x.device).manual_seed(seed),
        )
        return Audit(
            rows=len(x),
            features=features,
            k=k,
            accuracy=float((logits.argmax(1) == y).double().mean()),
            auc=metrics.auc(model, x, y) if len(y.unique()) > 1 else float("nan"),
            thickness=thick,
            attacks=rows,
            faithfulness=_faithfulness(model, x, explainer, features),
            validation=validation,
            settings={
                "radii": list(radii),
                "attacks": [repr(attack) for attack in attacks],
                "steps": steps,
                "budget": budget,
                "seed": seed,
                "explainer": repr(explainer),
            },
        )


def _faithfulness(model: nn.Module, x: Tensor, explainer: Explainer, features: int) -> dict[str, float]:
    if isinstance(explainer, Activation):
        return {}
    fractions = (0.01, 0.05, 0.1, 0.2, 0.5) if features > 200 else None
    return metrics.faithfulness(model, x, explainer=explainer, fractions=fractions)


def _attack_row(attack: Attack, radius: float, result: AttackResult) -> AttackRow:
    return AttackRow(
        attack=type(attack).__name__,
        radius=radius,
        precision=float(result.precision.mean()),
        displaced=float(metrics.displaced(result, attack.k).mean()),
        changed=float((result.precision < 1).double().mean()),
        sensitivity=metrics.sensitivity(result),
        distance=float(result.distance.mean()),
    )
