"""A small two-class problem and a smooth network for it."""

import torch
from torch import Tensor, nn

import r2et

OBJECTIVE = r2et.objectives.R2ET(k=2, gap=0.3, curvature=0.2)


def rows(count: int = 64) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(0)
    x = torch.randn(count, 6, generator=drawn)
    return x, (x[:, 0] + x[:, 1] * x[:, 2] > 0).long()


def network(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), nn.Softplus(), nn.Linear(8, 2))


def plain_loop(model: nn.Module, x: Tensor, y: Tensor, steps: int, lr: float = 0.1) -> None:
    """What every integration must come to."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        OBJECTIVE(model, x, y).backward()
        optimiser.step()


def same_weights(a: nn.Module, b: nn.Module) -> None:
    for ours, theirs in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)
