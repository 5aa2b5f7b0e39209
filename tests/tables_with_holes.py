"""A small encoded table in which numbers are missing here and there."""

import torch
from torch import Tensor, nn

from r2et import Columns
from tests.models_with_answers import generator, normal

#: two numbers that may be missing with their flags, one that is always there, a category, a flag: 9 features
COLUMNS = Columns(
    names=("age", "pay", "hours", "job", "smokes"),
    features=((0, 1), (2, 3), (4,), (5, 6, 7), (8,)),
    kinds=("number", "number", "number", "category", "flag"),
    frequencies=((), (), (), (0.2, 0.5, 0.3), (0.7, 0.3)),
    missing=(1, 3, -1, -1, -1),
)
DOMAIN = COLUMNS.domain()
#: what stands for what is missing
MEDIANS = {0: -0.2, 2: 0.1}


def table(rows: int, seed: int = 0) -> Tensor:
    """Valid rows (N, 9), float64: about a third of the first two numbers are missing."""
    x = torch.zeros(rows, COLUMNS.n, dtype=torch.float64)
    x[:, [0, 2, 4]] = normal(rows, 3, seed=seed)
    draws = generator(seed + 1)
    for value, median in MEDIANS.items():
        missing = torch.rand(rows, generator=draws) < 1 / 3
        x[missing, value], x[missing, value + 1] = median, 1.0
    x[torch.arange(rows), 5 + torch.randint(3, (rows,), generator=draws)] = 1
    x[:, 8] = torch.randint(2, (rows,), generator=draws).double()
    return x


def network(classes: int = 2, seed: int = 0) -> nn.Sequential:
    """A net with one hidden layer."""
    model = nn.Sequential(nn.Linear(COLUMNS.n, 8), nn.Softplus(), nn.Linear(8, classes)).double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(normal(*weight.shape, seed=seed + 10 * number))
    return model
