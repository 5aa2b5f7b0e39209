"""Small models with closed-form scores, gradients and Hessians, and loops that spell a formula out."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def linear(n: int = 6, classes: int = 2, seed: int = 0) -> nn.Module:
    """Logits W x + b. With two classes the gradient of the log-odds is a difference of rows of W, everywhere."""
    model = nn.Linear(n, classes).double()
    with torch.no_grad():
        model.weight.copy_(normal(classes, n, seed=seed))
        model.bias.copy_(normal(classes, seed=seed + 1))
    return model


class Quadratic(nn.Module):
    """Logits (0, x^T A x / 2 + b^T x + c): the log-odds of class 1 have gradient A x + b and Hessian A."""

    def __init__(self, A: Tensor, b: Tensor, c: float = 0.0) -> None:
        super().__init__()
        self.A, self.b, self.c = nn.Parameter(A.clone()), nn.Parameter(b.clone()), c

    def forward(self, x: Tensor) -> Tensor:
        A = (self.A + self.A.T) / 2
        value = (x @ A * x).sum(-1) / 2 + x @ self.b + self.c
        return torch.stack([torch.zeros_like(value), value], dim=-1)


def quadratic(n: int = 5, seed: int = 0, curvature: float = 1.0, c: float = 20.0) -> Quadratic:
    """A random quadratic score; the large constant keeps class 1 predicted around the origin."""
    A = normal(n, n, seed=seed) * curvature
    return Quadratic((A + A.T) / 2, normal(n, seed=seed + 1), c)


class OneNeuron(nn.Module):
    """Logits (0, v softplus(w^T x + b)): gradient v sigmoid(z) w, Hessian v sigmoid(z) (1 - sigmoid(z)) w w^T."""

    def __init__(self, w: Tensor, b: float = 0.1, v: float = 2.0) -> None:
        super().__init__()
        self.w, self.b, self.v = nn.Parameter(w.clone()), b, v

    def forward(self, x: Tensor) -> Tensor:
        value = self.v * nn.functional.softplus(x @ self.w + self.b)
        return torch.stack([torch.zeros_like(value), value], dim=-1)

    def gradient(self, x: Tensor) -> Tensor:
        return self.v * torch.sigmoid(x @ self.w + self.b)[:, None] * self.w

    def hessian(self, x: Tensor) -> Tensor:
        s = torch.sigmoid(x @ self.w + self.b)
        return self.v * (s * (1 - s))[:, None, None] * self.w[:, None] * self.w[None, :]


class Pair(nn.Module):
    """Takes (N, 2, n). Log-odds of class 1: a^T A b + c, so the gradients are A b for the first input, A^T a for
    the second: a Siamese-like model with a closed form."""

    def __init__(self, A: Tensor, c: float = 0.0) -> None:
        super().__init__()
        self.A, self.c = nn.Parameter(A.clone()), c

    def forward(self, x: Tensor) -> Tensor:
        value = ((x[:, 0] @ self.A) * x[:, 1]).sum(-1) + self.c
        return torch.stack([torch.zeros_like(value), value], dim=-1)

    def gradient(self, x: Tensor) -> Tensor:
        """Of the log-odds of class 1, (N, 2, n)."""
        return torch.stack([x[:, 1] @ self.A.T, x[:, 0] @ self.A], dim=1)


class Siamese(nn.Module):
    """Embeds both inputs by one network and compares the embeddings."""

    def __init__(self, n: int = 5, seed: int = 0, activation: type[nn.Module] = nn.Tanh) -> None:
        super().__init__()
        self.embed = mlp(n, 4, hidden=6, seed=seed, activation=activation)
        self.head = linear(4, 2, seed=seed + 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x[:, 0]) * self.embed(x[:, 1]))


def mlp(
    n: int = 6,
    classes: int = 2,
    hidden: int = 8,
    seed: int = 0,
    activation: type[nn.Module] | Callable[[], nn.Module] = nn.Softplus,
) -> nn.Sequential:
    """A float64 net with one hidden layer and weights of its own seed."""
    model = nn.Sequential(nn.Linear(n, hidden), activation(), nn.Linear(hidden, classes)).double()
    source = generator(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=source, dtype=torch.float64) * 0.7)
    return model


def convolution(classes: int = 3, seed: int = 0) -> nn.Sequential:
    """Takes images (N, 2, 4, 4) with two channels."""
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.Softplus(), nn.Flatten(), nn.Linear(48, classes)
    ).double()
    source = generator(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=source, dtype=torch.float64) * 0.3)
    return model


# the same formulas, written out


def naive_log_odds(logits: Tensor, c: int) -> Tensor:
    """u_c - log(sum of exp(u_j), j != c) of one row of logits (C,)."""
    others = [logits[j] for j in range(len(logits)) if j != c]
    return logits[c] - torch.stack(others).exp().sum().log()


def naive_gradient(model: nn.Module, row: Tensor, c: int, score: str = "log-odds", graph: bool = False) -> Tensor:
    """Signed gradient of one score at one input, in its shape."""
    point = row.detach().clone().requires_grad_() if not row.requires_grad else row
    logits = model(point[None])[0]
    value = {
        "log-odds": lambda: naive_log_odds(logits, c),
        "probability": lambda: logits.softmax(0)[c],
        "logit": lambda: logits[c],
    }[score]()
    return torch.autograd.grad(value, point, create_graph=graph)[0]


def naive_order(values: list[float]) -> list[int]:
    """Features, most salient first, ties to the smaller index."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


def naive_pairs(values: list[float], k: int) -> list[tuple[int, int]]:
    """All pairs of a salient and another feature."""
    ranked = naive_order(values)
    return [(i, j) for i in ranked[:k] for j in ranked[k:]]
