"""What change of a number nobody would call another person: proposed by the data, or said by somebody."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2et.errors import InputError
from r2et.numerics.values import as_number, quoted, suggestion

#: of the median magnitude of a column, in per cent, and of its standard deviation: what is proposed
PERCENT, OF_SPREAD = 2.0, 0.1
#: decimals that are looked for
MOST_DECIMALS = 6
#: rows that are looked at for decimals
ENOUGH = 10_000


@dataclass(frozen=True)
class Plausible:
    """One plausible change of a number.

    Args:
        amount: in the units of the column.
        percent: of the column's median magnitude, if that is how it is said; None = it is an amount.
        step: how far neighbouring values are apart, 1 for whole numbers, 0.01 for two decimals; 0 = any.
        magnitude: median of the values' magnitudes; 0 = unknown.

    >>> str(Plausible(1.0)), str(Plausible(374.0, percent=2.0, magnitude=18_700.0))
    ('1', '2 % (374)')
    """

    amount: float
    percent: float | None = None
    step: float = 0.0
    magnitude: float = 0.0

    def __post_init__(self) -> None:
        for name in ("amount", "step", "magnitude"):
            number = as_number(getattr(self, name))
            if number is None or not np.isfinite(number) or number < 0 or (name == "amount" and number == 0):
                least = "above 0" if name == "amount" else "at least 0"
                raise InputError(f"{name} must be a number {least}, got {name}={quoted(getattr(self, name))}")
        percent = 1.0 if self.percent is None else as_number(self.percent)
        if percent is None or not 0 < percent < np.inf:
            raise InputError(f"percent must be a number above 0 or None, got percent={quoted(self.percent)}")

    def __str__(self) -> str:
        return f"{self.amount:g}" if self.percent is None else f"{self.percent:g} % ({self.amount:g})"


def proposed(values: NDArray[np.float64]) -> Plausible:
    """What the values of a column (N,) propose: 2 % of their median magnitude, or what is coarser or finer.

    It is no less than the data's own resolution (1 for whole numbers, 0.1 where there is one decimal), and no more
    than a tenth of the standard deviation where that leaves more than the resolution: 2 % of a year of birth would
    be 40 years.

    >>> print(proposed(np.array([23.0, 35, 48, 61])), proposed(np.array([1500.5, 1870.2, 9000.1])))
    1 2 % (37.404)
    >>> print(proposed(np.array([1990.0, 1992, 1996])))
    1
    """
    step = resolution(values)
    sizes = np.abs(values[values != 0])
    magnitude = float(np.median(sizes)) if len(sizes) else 0.0
    with np.errstate(over="ignore"):
        share, spread = PERCENT / 100 * magnitude, OF_SPREAD * float(values.std())
    if share > step and (share <= spread or spread == 0):
        return Plausible(share, PERCENT, step, magnitude)
    amount = float(f"{min(share, spread):.2g}")
    if step > 0:
        # as the values are written
        amount = max(step, float(np.round(amount / step) * step))
    return Plausible(amount if amount > 0 else 1.0, None, step, magnitude)


def resolution(values: NDArray[np.float64]) -> float:
    """How far neighbouring values (N,) are apart by the way they are written; 0 where no such step is seen.

    >>> resolution(np.array([3.0, 7.0])), resolution(np.array([0.25, 1.5])), resolution(np.array([np.pi, 1.0]))
    (1.0, 0.01, 0.0)
    """
    some = values[:: 1 + len(values) // ENOUGH]
    for decimals in range(MOST_DECIMALS + 1):
        # up to the last digits of a float
        if np.allclose(some, np.round(some, decimals), rtol=1e-14, atol=0.0):
            return float(10.0**-decimals)
    return 0.0


_PIECE = re.compile(r"(?P<number>[0-9.eE+-]+)\s*(?P<percent>%?)")


def parse_plausible(text: str, known: Mapping[str, Plausible], others: Iterable[str] = ()) -> dict[str, Plausible]:
    """The plausible changes of columns, some as a text says, the others as they are known.

    Args:
        text: "auto", or pieces such as "age=1,income=2%"; a percentage is of the column's median magnitude.
        known: of every column of numbers.
        others: names of columns that are no numbers.

    >>> known = {"age": Plausible(1.0), "income": Plausible(10.0, magnitude=2000.0)}
    >>> changes = parse_plausible("income=2%", known)
    >>> print(changes["age"], changes["income"])
    1 2 % (40)
    """
    changes = dict(known)
    if not isinstance(text, str) or not text.strip():
        raise InputError(f'plausible changes are "auto", or pieces such as age=1,income=2%; got {quoted(text)}')
    if text.strip() == "auto":
        return changes
    named: set[str] = set()
    for piece in text.split(","):
        column, _, amount = piece.rpartition("=")
        column = column.strip()
        match = _PIECE.fullmatch(amount.strip())
        number = None if match is None else _number(match["number"])
        if not column or match is None or number is None or not 0 < number < np.inf:
            raise InputError(
                f"a plausible change is column=number or column=number%, got {quoted(piece)} in {quoted(text)}"
            )
        if column in named:
            raise InputError(f"column {column!r} has two plausible changes in {quoted(text)}")
        named.add(column)
        changes[column] = _said(column, number, known, others, percent=bool(match["percent"]))
    return changes


def _said(
    column: str, number: float, known: Mapping[str, Plausible], others: Iterable[str], *, percent: bool
) -> Plausible:
    if column not in known:
        if column in others:
            raise InputError(
                f"column {column!r} holds no numbers: it does not change, so it has no plausible change"
            )
        raise InputError(f"there is no column {column!r} of numbers{suggestion(column, list(known)[:40])}")
    before = known[column]
    if not percent:
        return replace(before, amount=number, percent=None)
    if before.magnitude == 0:
        raise InputError(f"column {column!r} is 0 throughout, so {number:g} % of it is nothing: give an amount")
    return replace(before, amount=number / 100 * before.magnitude, percent=number)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def as_json(changes: Mapping[str, Plausible]) -> dict[str, Any]:
    """Plain JSON values, for what a command prints."""
    return {column: {"amount": change.amount, "percent": change.percent} for column, change in changes.items()}
