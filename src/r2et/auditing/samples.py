"""What an audit found row by row, and pictures of rows: numbers and names, nothing that knows a model."""

from dataclasses import dataclass

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
        labels, predicted: class numbers (N,); of a model with one output the numbers that were to be predicted,
            and 0 for every row.
        probability: of the predicted class (N,); of a model with one output that output.
        top, top_scores: the salient features and their scores, most salient first, (N, M, k); where a list has
            fewer names, -1 and 0.
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
        # P@k is rounded: equal rows are to compare as equal
        return ((1 - self.precision.double()) * self.top.shape[-1] * self.members).sum(0).round(decimals=4)
