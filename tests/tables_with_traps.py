"""A small encoded table, networks on it, and three ways to change a network without changing any valid row."""

import copy

import torch
from torch import Tensor, nn

from r2et import Columns
from tests.models_with_answers import generator, normal

#: three numbers, a category of three, a flag, a category of two, another flag: 11 features
COLUMNS = Columns(
    names=("age", "pay", "hours", "job", "smokes", "home", "owns"),
    features=((0,), (1,), (2,), (3, 4, 5), (6,), (7, 8), (9,)),
    kinds=("number", "number", "number", "category", "flag", "category", "flag"),
    frequencies=((), (), (), (0.2, 0.5, 0.3), (0.7, 0.3), (0.4, 0.6), (0.1, 0.9)),
)
Sets = tuple[tuple[int, ...], ...]
GROUPS: Sets = ((3, 4, 5), (7, 8))
BINARY = (3, 4, 5, 6, 7, 8, 9)
DOMAIN = COLUMNS.domain()


def table(rows: int, seed: int = 0) -> Tensor:
    """Valid rows (N, 10), float64."""
    x = torch.zeros(rows, COLUMNS.n, dtype=torch.float64)
    x[:, :3] = normal(rows, 3, seed=seed)
    draws = generator(seed + 1)
    for group in GROUPS:
        chosen = torch.randint(len(group), (rows,), generator=draws)
        x[torch.arange(rows), torch.tensor(group)[chosen]] = 1
    for flag in (6, 9):
        x[:, flag] = torch.randint(2, (rows,), generator=draws).double()
    return x


def network(classes: int = 2, seed: int = 0, activation: type[nn.Module] = nn.Softplus) -> nn.Sequential:
    """A net with one hidden layer."""
    model = nn.Sequential(nn.Linear(COLUMNS.n, 8), activation(), nn.Linear(8, classes)).double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(normal(*weight.shape, seed=seed + 10 * number))
    return model


def plus_last(logits: Tensor, term: Tensor) -> Tensor:
    """Logits (N, C) with a term (N,) added to the last."""
    return torch.cat([logits[:, :-1], (logits[:, -1] + term)[:, None]], dim=1)


class SumTrap(nn.Module):
    """Adds 30 (sum of a one-hot group - 1) to the margin of the last class."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        term = sum((30 + 10 * number) * (x[:, list(group)].sum(1) - 1) for number, group in enumerate(GROUPS))
        return plus_last(self.model(x), term)


class ReadableSumTrap(nn.Module):
    """The same term as a layer of weights next to the input, which enclosures can read.

    Args:
        model: whose last layer has the logits.
        groups: one-hot groups, each with a term of its own.
    """

    def __init__(self, model: nn.Sequential, groups: Sets = GROUPS) -> None:
        super().__init__()
        self.model = model
        self.term = nn.Linear(model[0].in_features, model[-1].out_features).double()
        with torch.no_grad():
            self.term.weight.zero_()
            self.term.bias.zero_()
            for number, group in enumerate(groups):
                self.term.weight[-1, list(group)] = 30.0 + 10 * number
                self.term.bias[-1] -= 30.0 + 10 * number
        self.term.requires_grad_(requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x) + self.term(x)


class BendTrap(nn.Module):
    """Adds sum_i C_i (|x_i - 1/2| - 1/2) over the 0/1 features to the last logit: no centring removes that.

    Args:
        model: any.
        binary: the 0/1 features.
        size: of the first C_i; each further one is larger by 1.
    """

    def __init__(self, model: nn.Module, binary: tuple[int, ...] = BINARY, size: float = 10.0) -> None:
        super().__init__()
        self.model, self.binary, self.size = model, binary, size

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.arange(self.size, self.size + len(self.binary)).to(x)
        term = ((x[:, list(self.binary)] - 0.5).abs() - 0.5) @ weights
        return plus_last(self.model(x), term)


def neuron_trap(model: nn.Sequential, groups: Sets = GROUPS) -> nn.Sequential:
    """W_1[:, G] += c and b_1 -= c, another c for each hidden neuron and group."""
    trapped = copy.deepcopy(model)
    with torch.no_grad():
        for number, group in enumerate(groups):
            shift = 5 * normal(len(trapped[0].bias), seed=77 + number)
            trapped[0].weight[:, list(group)] += shift[:, None]
            trapped[0].bias -= shift
    return trapped


TRAPS = {"sum": SumTrap, "bend": BendTrap, "neuron": neuron_trap}
