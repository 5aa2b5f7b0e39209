"""A small problem, small models, and a trainer that remembers the weights of every epoch."""

from typing import Any

import torch
from torch import Tensor, nn

from r2et import models
from r2et.training import Batch, FitResult, Trainer

Part = tuple[Tensor, Tensor]


def problem(
    rows: int = 60,
    features: int = 5,
    seed: int = 0,
    noise: float = 0.0,
    dtype: torch.dtype = torch.float32,
    validation: int = 40,
) -> tuple[Part, Part]:
    """Train and validation of two classes; without noise a plane separates them."""
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(rows + validation, features, generator=source, dtype=torch.float64)
    blur = noise * torch.randn(rows + validation, generator=source, dtype=torch.float64)
    y = (x[:, 0] - 0.5 * x[:, 1] + blur > 0).long()
    x = x.to(dtype)
    return (x[:rows], y[:rows]), (x[rows:], y[rows:])


def net(
    seed: int = 0, features: int = 5, activation: str = "softplus", dtype: torch.dtype = torch.float32
) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return models.MLP(features, 2, hidden=(8,), activation=activation).to(dtype)


def dropout_net(seed: int = 0, features: int = 5) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(features, 8), nn.Softplus(), nn.Dropout(0.4), nn.Linear(8, 2))


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Equal bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def distance(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def without_seconds(result: FitResult) -> list[dict[str, float]]:
    return [{name: value for name, value in record.items() if name != "seconds"} for record in result.records]


def remembering() -> tuple[type[Trainer], list[dict[str, Tensor]]]:
    """A trainer, and the list it appends the weights of every epoch to."""
    seen: list[dict[str, Tensor]] = []

    class Remembering(Trainer):
        def validate(self) -> dict[str, float]:
            seen.append(weights(self.original))
            return super().validate()

    return Remembering, seen


def interrupted_at(step: int) -> type[Trainer]:
    """A trainer that is interrupted in the middle of the epoch with this step."""

    class Interrupted(Trainer):
        def train_step(self, batch: Batch, generator: torch.Generator, number: int) -> Any:
            if number == step:
                raise KeyboardInterrupt
            return super().train_step(batch, generator, number)

    return Interrupted
