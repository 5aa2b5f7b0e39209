"""What `audit` returns: figures, samples, a verdict, and the ways to hand them over."""

import math
import textwrap
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from r2et import validate
from r2et.auditing.examples import EXAMPLES, Direction, Example, changes_of, decided, examples, examples_in_words
from r2et.auditing.inputs import Outcome, number_as_text
from r2et.auditing.lists import KappaBracket, lists_as_json, lists_in_words
from r2et.auditing.own_rows import OwnRows
from r2et.auditing.provenance import Made, Source
from r2et.auditing.samples import Samples
from r2et.auditing.verdicts import attack_lines, verdict
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
        by_columns: whether the columns of a table are ranked, not the features of an input.
        direction: whether a score says more than how much: "signed", "positive" (only what speaks for the
            predicted class is listed, perhaps fewer than k), or "" for magnitudes.
        target: what the classes are of, such as a column of a file; "" if that is unknown.
        own: the rows of a table in a person's own units, and what was changed of them; None if these are unknown.
        source: of the rows; None if that is unknown.
        background: size and sha256 of what the explanation is measured against, if there is such a thing.
        made: versions and date.
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
    by_columns: bool = field(repr=False, default=False)
    direction: Direction = field(repr=False, default="")
    target: str = field(repr=False, default="")
    own: OwnRows | None = field(repr=False, default=None)
    source: Source | None = field(repr=False, default=None)
    background: dict[str, Any] | None = field(repr=False, default=None)
    made: Made = field(repr=False, default_factory=Made.now)
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

    @property
    def ranks(self) -> str:
        """What is ranked, in the plural: "columns" of a table, else "features"."""
        return "columns" if self.by_columns else "features"

    @property
    def calls_rows(self) -> str:
        """What the audited inputs are called, in the plural."""
        return "rows" if self.by_columns or self.own is not None else "inputs"

    def row_name(self, row: int) -> str:
        """What a row is called, by its number from 0 among the audited ones."""
        return self.samples.row_names[row] if self.samples.row_names else str(row)

    def decision(self, row: int) -> str:
        """What was predicted of a row: "Status = bad (probability 83 %)"."""
        return decided(self, int(self.samples.predicted[row]), float(self.samples.probability[row]))

    def verdict(self) -> str:
        """What holds, whether it is about the single input, and the worst finding, computed from the figures."""
        return verdict(self)

    def summary(self) -> str:
        """The audit as text, readable at 80 columns."""
        return "\n".join(
            [
                textwrap.fill(self.verdict(), 80),
                *(textwrap.fill(f"Note: {note}.", 80) for note in self.notes),
                *examples_in_words(self),
                "",
                f"{self.rows} inputs, {self.features} {self.ranks}, k = {self.k}",
                textwrap.fill(f"threat {self.settings.threat}: {IN_WORDS[self.settings.threat]}", 80),
                "   ".join([*self.accuracy_in_words(), f"thickness {float(self.thickness.mean()):.4f}"]),
                "   ".join(f"{name} {value:.3f}" for name, value in self.faithfulness.items()),
                *(textwrap.fill(text, 80) for text in self._proof_in_words()),
                *(
                    textwrap.fill(text, 80)
                    for text in lists_in_words(self.individuality, self.kappas, self.movable)
                ),
                "",
                *attack_lines(self),
                "",
                self.validation.summary(),
            ]
        )

    def provenance(self) -> dict[str, Any]:
        """Where the figures come from, as plain JSON values: file, rows, target, explanation, versions, date."""
        source = Source() if self.source is None else self.source
        return {
            "model": self.name or None,
            "data": source.data or None,
            "sha256": source.sha256 or None,
            "file_rows": source.rows,
            "rows": self.rows,
            "drawn": source.drawn or None,
            "unseen": source.unseen,
            "target": self.target or None,
            "left_out": dict(source.left_out),
            "reading": list(source.reading),
            "explainer": self.settings.explainer,
            "background": self.background,
            "threat": self.settings.threat,
            "radii": list(self.settings.radii),
            "recipe": self.settings.recipe,
            "budget": self.settings.budget,
            "seed": self.settings.seed,
            "versions": {"r2et": self.made.r2et, "torch": self.made.torch, "python": self.made.python},
            "date": self.made.date,
        }

    def examples(self, count: int = EXAMPLES) -> list[Example]:
        """The most fragile rows in their own units: decision, reasons, what was changed, reasons afterwards.

        Args:
            count: of rows, at most.
        """
        return examples(self, count)

    def changes(self) -> "pd.DataFrame":
        """What WorstCase changed of every row at each radius, in the columns' own units; see `changes_of`."""
        return changes_of(self)

    def accuracy_in_words(self) -> list[str]:
        """How well the model predicts: each figure with its name."""
        if self.outcome is None:
            auc = "AUC unknown (the rows are of one class)" if math.isnan(self.auc) else f"AUC {self.auc:.4f}"
            return [f"accuracy {self.accuracy:.4f}", auc]
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
            "provenance": self.provenance(),
            "examples": [example.to_dict() for example in self.examples()],
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
