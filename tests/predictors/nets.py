"""Models that the tests of loading export, save and rebuild."""

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """A net with layers, a function and a sum."""

    def __init__(self, features: int = 5, hidden: int = 8, activation: str = "softplus") -> None:
        super().__init__()
        middle = {"softplus": nn.Softplus(beta=2.0), "relu": nn.ReLU()}[activation]
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.BatchNorm1d(hidden), middle, nn.Dropout(0.2))
        self.head = nn.Linear(hidden, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        return self.head(hidden + torch.tanh(hidden))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))


def in_float64() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)),
        nn.Conv2d(1, 3, 3, bias=False),
        nn.BatchNorm2d(3),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(3, 2),
    )


def attention() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    return nn.Sequential(nn.Unflatten(1, (5, 1)), nn.Linear(1, 8), layer, nn.Flatten(), nn.Linear(40, 2))


class Choice(nn.Module):
    """Layers with names that are no names in Python, one after the other."""

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers.values():
            x = layer(x)
        return x


class Masked(nn.Module):
    """Keeps some features."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True, True, False]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(self.mask, x, torch.zeros_like(x))


class Last(nn.Module):
    """Classes of the last step of a sequence."""

    def __init__(self, steps: nn.Module) -> None:
        super().__init__()
        self.steps, self.head = steps, nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.steps(x)[0][:, -1])


class Assorted(nn.Module):
    """Constants, shared weights, views, several results, calls in place, and arithmetic of sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 2)
        self.second.weight = self.first.weight
        self.register_buffer("kept", torch.ones(1).expand(5))
        self.register_buffer("lost", torch.randn(5), persistent=False)
        self.constant = torch.randn(5, 5).t()

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.second(self.first(x) * self.kept + self.lost) @ self.constant
        left, right = hidden.split([2, 3], 1)
        hidden = torch.cat([right, left], 1).relu_()
        hidden += torch.arange(x.shape[0]).unsqueeze(1)
        hidden = hidden * (x.shape[0] * 2 + 1) / 3
        largest, place = hidden.max(1, keepdim=True)
        hidden = hidden.masked_fill(largest > 1e9, float("-inf")) + torch.nn.functional.one_hot(place[:, 0], 5)
        hidden[:, 0] = torch.einsum("ni,ni->n", x, x)
        return self.head(hidden.double().to(x.dtype)).reshape(x.shape[0], -1)


def export(model: nn.Module, x: Tensor, path) -> None:
    """As the error messages say."""
    model.eval()
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    torch.export.save(torch.export.export(model, (x[:2],), dynamic_shapes=shapes), str(path))
