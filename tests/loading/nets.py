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


def export(model: nn.Module, x: Tensor, path) -> None:
    """As the error messages say."""
    model.eval()
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    torch.export.save(torch.export.export(model, (x[:2],), dynamic_shapes=shapes), str(path))
