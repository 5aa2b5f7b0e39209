"""What `audit` returns: figures, samples, a verdict, and the ways to hand them over."""

import textwrap
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from r2et import validate
from r2et.auditing.inputs import Outcome, number_as_text
from r2et.auditing.lists import KappaBracket, individuality_clause, lists_as_json, lists_in_words
from r2et.auditing.samples import Samples
from r2et.certificates import Bracket, Certificate
from r2et.certificates.both_ends import ATTACKERS, outwards
from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.domain import IN_WORDS, Threat
from r2et.files.serialising import plain
from r2et.individuality import Individuality

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


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How an audit was computed.

    Attributes:
        radii: L2 budgets of the attacks, as they were asked for.
        radii_reason: where they come from, in a sentence.
        scale: standard deviation of a typical feature; None = no feature varies that may be moved.
        attacks: each of them with its options, as text; the worst case is the last.
        own_attacks: whether who ran the audit chose them.
        recipe: by which to quote the worst case.
        threat: what an attacker may do: "domain", "tangent" or "paper".
        steps: of ERAttack, MSEAttack and attacks of their kind.
        budget: of the worst case.
        seed: of everything that was drawn.
        explainer: with its options, as text.
        thickness_sigma: standard deviation of the neighbours that thickness was measured over.
        uncertified: why there is no certificate, or not one of all rows; "" = there is one of all rows.
        tolerance: how far the number that a model with one output predicts may move while it counts as kept; None
            for classes.
    """

    radii: tuple[float, ...]
    radii_reason: str
    scale: float | None
    attacks: tuple[str, ...]
    own_attacks: bool
    recipe: str
    threat: Threat
    steps: int
    budget: str
    seed: int
    explainer: str
    thickness_sigma: float
    uncertified: str
    tolerance: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        values: dict[str, Any] = plain(self)
        return values


@dataclass(frozen=True)
class Audit:
    """What `audit` found.

    Attributes:
        rows: how many inputs were audited.
        features: how many features are ranked.
        k: size of the salient set.
        accuracy: share of correct predictions; NaN where a number is predicted.
        auc: area under the ROC curve (cAUC); NaN if the labels hold one class only, and where a number is
            predicted.
        thickness: probability thickness of each input (N,), around it at the smallest radius.
        attacks: one entry for each attack and radius.
        faithfulness: means of DFFOT, COMP and SUFF; empty for an explanation of neurons, which cannot be removed
            from an input. With more than 200 features K is the paper's 1, 5, 10, 20 and 50 % of them (App. B.1.4).
        validation: what `r2et.validate.check` found.
        settings: how all of it was computed; `settings.uncertified` says why there is no certificate, or not one
            of all rows.
        samples: what was found row by row.
        individuality: how alike the lists of the rows are; with P@k at each radius, under WorstCase and, if all
            rows are certified, proven.
        kappas: what is left of P@k beyond what two lists share, at each radius; empty where there is one list for
            everybody.
        requested: how many inputs were to be audited: more than `rows` if the work was interrupted.
        certificate: of the rows whose `samples.certified` is not NaN; None if there is none.
        bracket: P@k at each radius of the same rows, proven and under WorstCase, whose points are judged in
            float64 for it, as the certificate is.
        name: of the model.
        feature_names: of the ranked features.
        input_names: of the features of one input.
        class_names: of the classes.
        layout: how the features of one input lie.
        movable: share of the listed features that an attacker can move.
        r2, mae: of a model with one output the coefficient of determination, and the mean absolute error in the
            units of the number that is predicted; NaN for classes.
        outcome: that number; None for classes.
        notes: what to know about the rows before believing the figures, as sentences without their full stop: that
            the model may have seen them in training, or that features look like a category which nobody named.
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
    settings: AuditSettings = field(repr=False)
    samples: Samples = field(repr=False)
    individuality: Individuality = field(repr=False)
    kappas: tuple[KappaBracket, ...] = field(repr=False)
    requested: int
    certificate: Certificate | None = field(repr=False, default=None)
    bracket: Bracket | None = field(repr=False, default=None)
    name: str = ""
    feature_names: tuple[str, ...] = field(repr=False, default=())
    input_names: tuple[str, ...] = field(repr=False, default=())
    class_names: tuple[str, ...] = field(repr=False, default=())
    layout: ImageLayout | GraphLayout | None = field(repr=False, default=None)
    movable: float = field(repr=False, default=1.0)
    notes: tuple[str, ...] = field(repr=False, default=())
    r2: float = float("nan")
    mae: float = float("nan")
    outcome: Outcome | None = None

    @property
    def complete(self) -> bool:
        """Whether every row was audited."""
        return self.rows == self.requested

    @property
    def worst(self) -> AttackRow:
        """The attack and radius that displaced most."""
        return max(self.attacks, key=lambda row: row.displaced)

    @property
    def image(self) -> tuple[int, int] | None:
        """(height, width) if the ranked features are pixels."""
        # pictures are there only if pixels are ranked
        if isinstance(self.layout, ImageLayout) and self.samples.pictures:
            return self.layout.shape[1], self.layout.shape[2]
        return None

    def curve(self, attack: str) -> list[tuple[float, float]]:
        """Radius and mean P@k of one attack, by rising radius."""
        return sorted((row.radius, row.precision) for row in self.attacks if row.attack == attack)

    def certified_precision(self, radius: float) -> float | None:
        """Mean P@k that no change of norm at most `radius` undercuts; None if there is no certificate."""
        return None if self.certificate is None else float(self.certificate.precision_at(radius).mean())

    def verdict(self) -> str:
        """The worst finding in a sentence or two, computed from the figures."""
        worst = self.worst
        largest = max(row.radius for row in self.attacks)
        if worst.displaced == 0:
            finding = (
                f"No attack changed any of the top {self.k} features of any of the {self.rows} inputs, "
                f"up to radius {largest:g}.{self._proven(largest)}"
            )
        else:
            finding = (
                f"A change of norm at most {worst.radius:g} that keeps the prediction replaces at least one of "
                f"the top {self.k} features for {worst.changed:.0%} of the inputs, {worst.displaced:.1f} of "
                f"{self.k} on average ({worst.attack})."
            )
        told = worst.radius if worst.displaced else largest
        bracket = next((bracket for bracket in self.kappas if bracket.radius == told), None)
        finding += individuality_clause(self.individuality, bracket)
        if self.complete:
            return finding
        return f"{finding} Interrupted: only the first {self.rows} of {self.requested} inputs were audited."

    def _proven(self, radius: float) -> str:
        certified = self.samples.certified
        if bool((certified == torch.inf).all()):
            return " None can, at any radius: it is certified."
        return " None can: it is certified." if bool((certified > radius).all()) else ""

    def summary(self) -> str:
        """The audit as text, readable at 80 columns."""
        width = max(12, *(len(row.attack) for row in self.attacks))
        lines = [
            textwrap.fill(self.verdict(), 80),
            *(textwrap.fill(f"Note: {note}.", 80) for note in self.notes),
            "",
            f"{self.rows} inputs, {self.features} features, k = {self.k}",
            textwrap.fill(f"threat {self.settings.threat}: {IN_WORDS[self.settings.threat]}", 80),
            "   ".join([*self.accuracy_in_words(), f"thickness {float(self.thickness.mean()):.4f}"]),
            "   ".join(f"{name} {value:.3f}" for name, value in self.faithfulness.items()),
            *(textwrap.fill(text, 80) for text in self._proof_in_words()),
            *(textwrap.fill(text, 80) for text in lists_in_words(self.individuality, self.kappas, self.movable)),
            "",
            f"{'attack':{width}} {'radius':>7} {'P@' + str(self.k):>7} {'displaced':>10} {'inputs changed':>15} "
            f"{'distance':>9}",
        ]
        lines += [
            f"{row.attack:{width}} {row.radius:7g} {100 * row.precision:7.1f} {row.displaced:10.2f} "
            f"{row.changed:15.1%} {row.distance:9.3f}"
            for row in self.attacks
        ]
        lines.append(f"{'by chance':{width}} {'':7} {100 * self.individuality.chance:7.1f}")
        return "\n".join([*lines, "", self.validation.summary()])

    def accuracy_in_words(self) -> list[str]:
        """How well the model predicts: each figure with its name."""
        if self.outcome is None:
            return [f"accuracy {self.accuracy:.4f}", f"AUC {self.auc:.4f}"]
        return [f"R2 {self.r2:.4f}", f"mean absolute error {number_as_text(self.mae)} ({self.outcome.name})"]

    def _proof_in_words(self) -> list[str]:
        """The certificate and the bracket, a paragraph each."""
        reason = self.settings.uncertified
        if self.certificate is None:
            return [f"no certificate: {reason}"]
        median = float(self.certificate.radius.median())
        words = [f"certified ({self.certificate.method}): median radius {median:.3g}. {reason}".rstrip()]
        if self.bracket is None:
            return words
        ends = ((*outwards(ends), ends.radius) for ends in self.bracket.mean())
        curve = ", ".join(f"[{low}, {high}] at {radius:g}" for low, high, radius in ends)
        return [
            *words,
            f"bracket of P@{self.k} over {len(self.bracket):,} inputs, [proven, attacked]: {curve}; threat "
            f"{self.bracket.threat}, {ATTACKERS[self.bracket.prediction]}",
        ]

    def to_frame(self) -> "pd.DataFrame":
        """One row for each attack and radius; `attrs["individuality"]` says how alike the lists are."""
        import pandas as pd

        frame = pd.DataFrame([asdict(row) for row in self.attacks])
        frame.attrs["individuality"] = lists_as_json(self.individuality, self.kappas, self.movable)
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything but the samples as plain JSON values; an infinite certified radius is None."""
        return {
            "verdict": self.verdict(),
            "notes": list(self.notes),
            "rows": self.rows,
            "requested": self.requested,
            "complete": self.complete,
            "features": self.features,
            "k": self.k,
            **{name: _or_none(getattr(self, name)) for name in ("accuracy", "auc", "r2", "mae")},
            "outcome": None if self.outcome is None else plain(self.outcome),
            "thickness": {
                "mean": float(self.thickness.mean()),
                "minimum": float(self.thickness.min()),
                "values": self.thickness.tolist(),
            },
            "attacks": [asdict(row) for row in self.attacks],
            "certificate": None if self.certificate is None else self._certificate_figures(self.certificate),
            "bracket": None if self.bracket is None else self.bracket.to_dict(),
            "individuality": lists_as_json(self.individuality, self.kappas, self.movable),
            "faithfulness": self.faithfulness,
            "validation": self.validation.to_dict(),
            "settings": self.settings.to_dict(),
        }

    def _certificate_figures(self, certificate: Certificate) -> dict[str, Any]:
        rows = (~self.samples.certified.isnan()).nonzero().squeeze(1)
        return {
            "method": certificate.method,
            "rows": rows.tolist(),
            "radius": [value if value < float("inf") else None for value in certificate.radius.tolist()],
            "precision": [
                {"radius": radius, "precision": float(certificate.precision_at(radius).mean())}
                for radius in self.samples.radii
            ],
        }


def _or_none(value: float) -> float | None:
    return None if value != value else value
