"""The rows that contributions are measured against: valid rows that are nobody's."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et.columns import Columns, check_rows_exist
from r2et.errors import InputError
from r2et.numerics.checks import check_inputs
from r2et.numerics.values import as_number, check_kind, is_whole, quoted
from r2et.registry import storable

#: a cluster of fewer rows would describe a person
LEAST_ROWS = 5


@storable("background")
@dataclass(frozen=True, repr=False)
class Background:
    """B rows of n features: what a column is replaced by when it is left out of a row.

    Whoever picks the background picks the reasons: a report names it by its `sha256`.

    Args:
        rows: B rows of n numbers each, (B, n); kept as tuples.

    >>> Background(((0.0, 1.0), (2.0, 0.0)))
    Background(2 rows of 2 features, sha256 41d01127...)
    """

    rows: Sequence[Sequence[float]] | Tensor | NDArray[np.float64]

    def __post_init__(self) -> None:
        rows = self.rows.tolist() if isinstance(self.rows, Tensor | np.ndarray) else self.rows
        try:
            plain = tuple(tuple(as_number(value) for value in row) for row in rows)
        except TypeError:
            plain = ()
        widths = {len(row) for row in plain}
        if len(widths) != 1 or 0 in widths or any(v is None or not np.isfinite(v) for row in plain for v in row):
            raise InputError(f"a background is a list of rows of finite numbers, got rows={quoted(self.rows)}")
        object.__setattr__(self, "rows", plain)

    @classmethod
    def from_rows(cls, x: Tensor, columns: Columns, *, size: int = 64, seed: int = 0) -> "Background":
        """At most `size` synthetic rows that stand for rows x (N, n): no row of x is kept.

        The rows are put into clusters (k-means). Of each the background has the mean of every number and the most
        frequent value of every flag and category: a row that can exist, and is nobody. Clusters of fewer than
        five rows are dissolved into the others, unless there are fewer rows altogether: then there is one row.

        Args:
            x: rows of the table, such as those that a model is trained on, (N, n).
            columns: of the table.
            size: the number of clusters.
            seed: of the clusters.

        >>> rows = torch.tensor([[1.0, 1.0, 0.0], [2.0, 1.0, 0.0], [3.0, 0.0, 1.0]], dtype=torch.float64)
        >>> columns = Columns(("age", "job"), ((0,), (1, 2)), ("number", "category"), ((), (0.7, 0.3)))
        >>> Background.from_rows(rows, columns).tensor
        tensor([[2., 1., 0.]], dtype=torch.float64)
        """
        check_inputs(x)
        check_kind("columns", columns, Columns, "r2et.Columns(...) or the columns of r2et.tables.Rows")
        check_rows_exist(x, columns)
        for name, value, least in (("size", size, 1), ("seed", seed, 0)):
            if not is_whole(value) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {name}={quoted(value)}")
        rows = x.detach().cpu().double().numpy()
        clusters = _clusters(rows, int(size), int(seed))
        typical = np.stack([_typical(rows[clusters == number], columns) for number in np.unique(clusters)])
        return cls(np.unique(typical, axis=0).tolist())

    def __len__(self) -> int:
        """How many rows."""
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"Background({len(self)} rows of {self.tensor.shape[1]} features, sha256 {self.sha256[:8]}...)"

    @cached_property
    def tensor(self) -> Tensor:
        """The rows, float64 (B, n)."""
        return torch.tensor(self.rows, dtype=torch.float64)

    @cached_property
    def sha256(self) -> str:
        """Of the rows as float64, row by row."""
        return hashlib.sha256(self.tensor.numpy().astype("<f8").tobytes()).hexdigest()


def _clusters(rows: NDArray[np.float64], size: int, seed: int) -> NDArray[np.int64]:
    """The number of each row's cluster (N,): of two or more clusters none has fewer than LEAST_ROWS rows."""
    from sklearn.cluster import KMeans

    size = min(size, len(rows) // LEAST_ROWS, len(np.unique(rows, axis=0)))
    if size < 2:
        return np.zeros(len(rows), dtype=np.int64)
    fitted = KMeans(size, n_init=1, random_state=seed).fit(rows)
    centres, labels = fitted.cluster_centers_, fitted.labels_
    while True:
        numbers, counts = np.unique(labels, return_counts=True)
        small = numbers[counts < LEAST_ROWS]
        if not len(small) or len(numbers) == 1:
            whole: NDArray[np.int64] = labels.astype(np.int64)
            return whole
        # one at a time: those that take its rows up may be large enough then
        dissolved, others = small[0], numbers[numbers != small[0]]
        moved = np.flatnonzero(labels == dissolved)
        apart = ((rows[moved, None] - centres[None, others]) ** 2).sum(2)
        labels[moved] = others[apart.argmin(1)]


def _typical(rows: NDArray[np.float64], columns: Columns) -> NDArray[np.float64]:
    """The mean of every number and the most frequent value of every discrete column of rows (M, n), (n,)."""
    row: NDArray[np.float64] = rows.mean(0)
    for number, (features, kind) in enumerate(zip(columns.features, columns.kinds, strict=True)):
        flag, valued = columns.missing[number], list(columns.valued(number))
        if flag >= 0:
            # the mean of those that are there, or what stands for all that are not
            row[flag] = float(rows[:, flag].mean() > 0.5)
            row[valued] = rows[rows[:, flag] == row[flag]][:, valued].mean(0)
        if kind != "number":
            values, counts = np.unique(rows[:, list(features)], axis=0, return_counts=True)
            row[list(features)] = values[counts.argmax()]
    return row
