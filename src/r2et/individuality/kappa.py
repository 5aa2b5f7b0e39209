"""Kappa: what is left of a P@k once the overlap between people is taken away, with its interval."""

from dataclasses import dataclass

import torch
from torch import Tensor

#: the share of resamples inside an interval, and how many may have no kappa
LEVEL, MOST_WITHOUT = 0.95, 0.05


@dataclass(frozen=True)
class Kappa:
    """What is left of a P@k once the overlap between people is taken away.

    Attributes:
        value: (A - B) / (1 - B).
        low, high: of the 95 % bootstrap interval over rows; NaN if there are too few rows for one.
    """

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float | None]:
        """As plain JSON values."""
        return {"value": self.value, "low": or_none(self.low), "high": or_none(self.high)}


def kappa_of(precision: Tensor, overlap: Tensor) -> Tensor:
    """(A - B) / (1 - B)."""
    return (precision - overlap) / (1 - overlap)


def interval(resampled: Tensor) -> tuple[Tensor, Tensor]:
    """Both ends for each of S situations, (S,), from the kappas of resamples (R, S); NaN where many have none.

    A resample of one row over and over has nobody to compare: where it is often that, the others are a choice.
    """
    finite = resampled.isfinite()
    enough = (~finite).double().mean(0) <= MOST_WITHOUT
    ends = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)
    low, high = resampled.where(finite & enough, torch.nan).nanquantile(ends, dim=0)
    return low, high


def or_none(value: float) -> float | None:
    """A number, or None for NaN, which JSON does not know."""
    return None if value != value else value
