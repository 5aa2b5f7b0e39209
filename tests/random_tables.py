"""Random small tables of numbers, flags and categories, as hypothesis draws them."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from r2et import Columns
from tests.models_with_answers import generator


@dataclass(frozen=True)
class RandomTable:
    """Columns, valid rows (N, n) and further valid rows (B, n) of them, float64."""

    columns: Columns
    x: Tensor
    others: Tensor

    def net(self, classes: int, seed: int) -> nn.Sequential:
        """A network in which all columns interact."""
        model = nn.Sequential(nn.Linear(self.columns.n, 5), nn.Tanh(), nn.Linear(5, classes)).double()
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(torch.randn(weight.shape, generator=generator(seed), dtype=torch.float64))
        return model


def valid_rows(columns: Columns, count: int, seed: int) -> Tensor:
    """Rows that can exist; numbers take few values, so that rows share some of them."""
    draws = generator(seed)
    x = torch.zeros(count, columns.n, dtype=torch.float64)
    for features, kind in zip(columns.features, columns.kinds, strict=True):
        part = list(features)
        if kind == "number":
            x[:, part] = torch.randint(-3, 4, (count, 1), generator=draws).double() / 2
        else:
            values = Columns.values(kind, len(part))
            x[:, part] = values[torch.randint(len(values), (count,), generator=draws)]
    return x


@st.composite
def random_tables(draw: st.DrawFn, most: int = 6, rows: int = 4) -> RandomTable:
    """Tables of 1 to `most` columns, in which each column has features of its own anywhere in a row."""
    kinds = draw(st.lists(st.sampled_from(["number", "flag", "category"]), min_size=1, max_size=most))
    sizes = [draw(st.integers(1, 3)) if kind == "category" else draw(st.sampled_from([1, 1, 2])) for kind in kinds]
    places = draw(st.permutations(range(sum(sizes))))
    features, begin = [], 0
    for size in sizes:
        features.append(tuple(places[begin : begin + size]))
        begin += size
    shares = [
        () if kind == "number" else (1 / size,) * size if kind == "category" else (0.5, 0.5)
        for kind, size in zip(kinds, sizes, strict=True)
    ]
    columns = Columns(
        tuple(f"column {i}" for i in range(len(kinds))), tuple(features), tuple(kinds), tuple(shares)
    )
    seed = draw(st.integers(0, 2**20))
    count = draw(st.integers(1, rows))
    return RandomTable(
        columns, valid_rows(columns, count, seed), valid_rows(columns, draw(st.integers(1, 3)), seed + 1)
    )
