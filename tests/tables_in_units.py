"""A table whose units are known, and a model of it whose lists are known in closed form."""

import torch
from torch import Tensor, nn

import r2et
from r2et.tables import Rows, Units
from r2et.tables.units import ColumnUnits

NAMES = ("Income", "Age", "Records")
UNITS = Units(
    (
        ColumnUnits("Income", "number", (0,), mean=2000.0, scale=500.0, step=1.0),
        ColumnUnits("Age", "number", (1,), mean=40.0, scale=10.0, step=1.0),
        ColumnUnits("Records", "flag", (2,), values=("no", "yes")),
    )
)
COLUMNS = r2et.Columns(NAMES, ((0,), (1,), (2,)), ("number", "number", "flag"), ((), (), (0.5, 0.5)))
DOMAIN = r2et.Domain(frozen=[2], unit=torch.tensor([1 / 500, 1 / 10, 0.0], dtype=torch.float64))
#: encoded incomes: with k = 1 the list is Age below 1 and Income above it
INCOMES = (0.0, 0.2, 0.5, 0.8, 1.2, 2.0)


class Bowl(nn.Module):
    """Logits (0, 50 + z_0^2 / 2 + z_1 + z_2 / 10): effects |z_0| of Income, 1 of Age, 1/20 of Records."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        value = 50 + self.weight * (x[:, 0] ** 2 / 2 + x[:, 1] + x[:, 2] / 10)
        return torch.stack([torch.zeros_like(value), value], dim=1)


def rows() -> Rows:
    """Six people; the last one's label is wrong."""
    x = torch.zeros(len(INCOMES), 3, dtype=torch.float64)
    x[:, 0] = torch.tensor(INCOMES)
    x[1::2, 2] = 1.0
    y = torch.ones(len(INCOMES), dtype=torch.int64)
    y[-1] = 0
    names = tuple(f"person {number}" for number in range(len(INCOMES)))
    return Rows(x, y, ("Income", "Age", "Records: yes"), names, DOMAIN, COLUMNS, UNITS, "Status")


def audited(**options: object) -> r2et.auditing.Audit:
    """Persons 3 and 4 are given another list at radius 0.5, nobody at 0.05."""
    names = ("bad", "good")
    settings = {"k": 1, "radii": (0.05, 0.5), "class_names": names, "budget": "fast", "steps": 2}
    return r2et.audit(Bowl(), rows(), **{**settings, "certificate": False, **options})
