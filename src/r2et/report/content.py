"""What a report is made of: numbers and names, nothing that knows a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Picture:
    """One row as images, for data that have pixels; M is 2 for a pair of inputs, else 1.

    Attributes:
        row: its number.
        pixels: the clean input in [0, 1], (M, channels, height, width).
        before, after: importance of each pixel before and after the attack, (M, height, width).
        change: what the attack added to each pixel, summed over the channels, (M, height, width).
    """

    row: int
    pixels: Tensor
    before: Tensor
    after: Tensor
    change: Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """What was found row by row. N rows, R radii, k salient features of n; M is 2 for pairs of inputs, else 1.

    Attributes:
        radii: of the attacks, rising, (R,).
        labels, predicted: class numbers (N,).
        probability: of the predicted class (N,).
        top, top_scores: the salient features and their scores, most salient first, (N, M, k).
        after, after_scores: the same after WorstCase, (R, N, M, k).
        precision, distance: P@k and norm of WorstCase's perturbation, (R, N).
        noise: P@k under random noise, (R, N).
        moved: input features that WorstCase changed most at the largest radius, by the size of the change, (N, m);
            they are numbered along the flattened axes of one row, so the second input of a pair comes after the
            first.
        moved_from, moved_by: their values in x, and what was added, (N, m).
        certified: radius inside which no perturbation changes the salient set, (N,); NaN = not certified,
            infinite = nothing changes it.
        in_top: in how many explanations each feature is salient, (n,).
        leaves, enters: in how many it leaves or enters the salient set under WorstCase, (R, n).
        row_names: what the rows are called, if not by their numbers.
        pictures: of the most fragile rows, for images.
    """

    radii: tuple[float, ...]
    labels: Tensor
    predicted: Tensor
    probability: Tensor
    top: Tensor
    top_scores: Tensor
    after: Tensor
    after_scores: Tensor
    precision: Tensor
    distance: Tensor
    noise: Tensor
    moved: Tensor
    moved_from: Tensor
    moved_by: Tensor
    certified: Tensor
    in_top: Tensor
    leaves: Tensor
    enters: Tensor
    row_names: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Samples({len(self)} rows, {len(self.radii)} radii, k={self.top.shape[-1]})"

    @property
    def members(self) -> int:
        """2 for pairs of inputs, else 1."""
        return self.top.shape[1]

    def most_fragile(self) -> Tensor:
        """Row numbers, int64 (N,): most features lost first, over all radii; then the smallest proven radius."""
        certified = self.certified.nan_to_num(nan=torch.inf, posinf=torch.inf)
        by_radius = certified.argsort(stable=True)
        return by_radius[self.lost()[by_radius].argsort(descending=True, stable=True)]

    def lost(self) -> Tensor:
        """How many salient features WorstCase drove out, summed over the radii, (N,)."""
        # P@k is rounded: only as whole numbers of features do equal rows compare as equal
        return ((1 - self.precision.double()) * self.top.shape[-1] * self.members).sum(0).round()


@dataclass(frozen=True, eq=False)
class Proof:
    """A certificate, for people.

    Attributes:
        method: how it was found.
        explanation: the map that is certified, in words.
        assumptions: what it rests on.
        rows: for how many rows it was computed.
        radii, precision: points of the mean certified P@k, a lower bound for every attack; the radii of the
            attacks are among them.
    """

    method: str
    explanation: str
    assumptions: tuple[str, ...]
    rows: int
    radii: tuple[float, ...]
    precision: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Content:
    """Everything a report says about one model.

    Attributes:
        name: of the model; "" = it has none.
        rows, requested: audited, and asked for; fewer if the work was interrupted.
        features, k: ranked features, and the size of the salient set.
        accuracy, auc: of the predictions; the AUC is NaN if the labels hold one class only.
        verdict: the finding in one sentence.
        attacks: one entry for each attack and radius, as `AttackRow` has them.
        thickness: of each row (N,).
        spread: standard deviation of the neighbours that thickness was measured over.
        samples: row by row.
        feature_names: of the ranked features (n,).
        input_names: of the features of one input.
        class_names: of the classes.
        image: (height, width) if the ranked features are pixels.
        proof: None if there is no certificate.
        no_proof: why there is none, or why it does not cover all rows; "" = it does.
        faithfulness: by name.
        warnings: severity, code, where, message and repair of each finding about the model.
        settings: how all of it was computed.
        scale: typical standard deviation of a feature; None = not known.
        notes: what to know about the rows before believing the figures, as sentences without their full stop.
    """

    name: str
    rows: int
    requested: int
    features: int
    k: int
    accuracy: float
    auc: float
    verdict: str
    attacks: Sequence[Mapping[str, Any]]
    thickness: Tensor
    spread: float
    samples: Samples
    feature_names: Sequence[str]
    input_names: Sequence[str]
    class_names: Sequence[str]
    image: tuple[int, int] | None = None
    proof: Proof | None = None
    no_proof: str = ""
    faithfulness: Mapping[str, float] = field(default_factory=dict)
    warnings: Sequence[Mapping[str, str]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    scale: float | None = None
    notes: Sequence[str] = ()

    @property
    def worst(self) -> Mapping[str, Any]:
        """The attack and radius that displaced most."""
        return max(self.attacks, key=lambda entry: entry["displaced"])

    def curve(self, attack: str) -> list[tuple[float, float]]:
        """Radius and mean P@k of one attack, by rising radius."""
        return sorted((entry["radius"], entry["precision"]) for entry in self.attacks if entry["attack"] == attack)
