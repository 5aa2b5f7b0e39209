"""The base class of explanations by the columns of a table."""

from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.columns import Columns, check_rows_exist
from r2et.errors import InputError
from r2et.explainers.explainer import Explainer
from r2et.numerics.once import once
from r2et.numerics.values import check_kind, few


@dataclass(frozen=True, kw_only=True)
class ByColumns(Explainer):
    """One score for each column of a table, from rows that can exist: discrete columns do not move.

    Args:
        columns: how the features of x (N, n) make up columns.
    """

    columns: Columns

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("columns", self.columns, Columns, "r2et.Columns(...) or the columns of r2et.tables.Rows")
        if self.reduce == "abs-sum" or self.inputs != 1:
            raise InputError(
                f"columns are those of a table, which has no channels and no pairs: {type(self).__name__} takes "
                f"reduce='abs' or 'signed' and inputs=1, got reduce={self.reduce!r}, inputs={self.inputs}"
            )

    def only_numbers_move(self, x: Tensor) -> Tensor:
        """Rows x (N, n) with no derivative by what is no number, whatever a model does between 0 and 1."""
        return torch.where(self.columns.continuous.to(x.device), x, x.detach())

    def spread(self, mask: Tensor, x: Tensor) -> Tensor:
        """Bring a mask of columns (N, columns) to the features of x (N, n)."""
        return mask[:, self.columns.owner.to(mask.device)]

    def check_shape(self, x: Tensor) -> None:
        """Raise unless x holds rows of this table that can exist."""
        check_rows_exist(x, self.columns)

    def within(self, points: Tensor, x: Tensor) -> Tensor:
        """Points around rows, both (..., n), with the discrete columns of x."""
        return torch.where(self.columns.continuous.to(x.device), points, x)

    def refuse_moves(self, movable: Tensor) -> None:
        """Raise if features of discrete columns may move, bool (n,): there is no effect between two values."""
        check_still(movable, self.columns, type(self).__name__)


@once
def check_still(movable: Tensor, columns: Columns, name: str) -> None:
    """Raise if features of discrete columns are among those that may move, bool (n,)."""
    moved = columns.owner[movable.cpu() & ~columns.continuous].unique().tolist()
    if moved:
        raise InputError(
            f"{name} compares rows that can exist, but what may move here includes the flags and categories "
            f'{few([columns.names[i] for i in moved])}: use threat="domain" and a domain in which they are frozen,'
            " such as domain=columns.domain()"
        )
