"""The pictures of the concept pages, computed on a small network: gap, thickness, and the bracket of a radius."""

from pathlib import Path
from typing import Any

import torch

import r2et
from r2et.attacks import BoundaryAttack, NoiseAttack, WorstCase

INK, SALIENT, OTHER, PROVEN = "#444444", "#c2571a", "#9fb3c8", "#3a7d44"
K, ROW, REACH = 8, 3, 1.0
RADII = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0]


def small_network() -> tuple[torch.nn.Module, Any]:
    """A network that is good enough to have a fragile list, the same at every call."""
    data = r2et.data.load("breast-cancer")
    torch.manual_seed(0)
    model = r2et.models.MLP(features=30, classes=2, activation="softplus", beta=5.0)
    r2et.fit(
        model, data.train, data.validation, settings=r2et.training.Settings(epochs=15, lr=5e-3, batch_size=64)
    )
    return model, data


def draw_concepts(folder: Path, save: Any) -> None:
    model, data = small_network()
    x = data.test.x[ROW : ROW + 1]
    attack = BoundaryAttack(k=K, radius=REACH, steps=100)
    attacked = attack(model, x, seed=0)
    _draw_gap(model, x, data, folder / "concept-gap.svg", save)
    _draw_thickness(model, x, attacked.x, data, folder / "concept-thickness.svg", save)
    _draw_bracket(model, data.test.x[:40], folder / "concept-bracket.svg", save)


def _draw_gap(model: Any, x: Any, data: Any, path: Path, save: Any) -> None:
    import matplotlib.pyplot as plt

    scores = r2et.explainers.Gradient()(model, x)[0]
    order = scores.argsort(descending=True)[:14]
    figure, axis = plt.subplots(figsize=(8, 3.4))
    values = scores[order].tolist()
    axis.bar(range(14), values, color=[SALIENT if rank < K else OTHER for rank in range(14)])
    axis.set_xticks(range(14), [data.feature_names[i] for i in order], rotation=55, ha="right", fontsize=8)
    axis.annotate(
        "",
        xy=(K - 0.5, values[K - 1]),
        xytext=(K - 0.5, values[K]),
        arrowprops={"arrowstyle": "<->", "color": INK, "shrinkA": 0, "shrinkB": 0},
    )
    axis.annotate(
        f"the gap between rank {K} and {K + 1}:\nall that holds the list together",
        (K - 0.5, values[K - 1]),
        xytext=(K + 0.3, max(values) * 0.75),
        fontsize=9,
        color=INK,
        arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.6},
    )
    axis.set_ylabel("|gradient|", fontsize=9, color=INK)
    _tidy(axis)
    save(figure, path)


def _draw_thickness(model: Any, x: Any, moved: Any, data: Any, path: Path, save: Any) -> None:
    import matplotlib.pyplot as plt

    shares = torch.linspace(0, 1, 101)
    points = x + shares[:, None] * (moved - x)
    target = model(x).argmax(1).expand(len(points))
    scores = r2et.explainers.Gradient()(model, points, target)
    top = scores[0].topk(K).indices.tolist()
    figure, axis = plt.subplots(figsize=(8, 3.4))
    for feature in range(scores.shape[1]):
        inside = feature in top
        axis.plot(
            shares,
            scores[:, feature].detach(),
            color=SALIENT if inside else OTHER,
            linewidth=1.6 if inside else 0.9,
        )
    kept = torch.tensor([r2et.precision_at_k(scores[0], row, K) for row in scores])
    lost = float(shares[int((kept < 1).nonzero()[0])]) if bool((kept < 1).any()) else 1.0
    axis.axvline(lost, color=INK, linestyle="--", linewidth=0.8)
    axis.annotate("the list changes", (lost, 0.0), xytext=(5, 4), textcoords="offset points", fontsize=9)
    axis.set_xlabel("from the input (0) to a perturbed one (1)", fontsize=9, color=INK)
    axis.set_ylabel("|gradient|", fontsize=9, color=INK)
    axis.set_title(
        f"orange: the {K} salient features of the input. Thickness is how far they stay on top, on average",
        fontsize=9,
        color=INK,
    )
    _tidy(axis)
    save(figure, path)


def _draw_bracket(model: Any, x: Any, path: Path, save: Any) -> None:
    import matplotlib.pyplot as plt

    certificate = r2et.certify(model, x, K)
    curves = {
        "noise: a random change": (NoiseAttack(k=K, radius=1.0), OTHER, ":"),
        "attack: the worst that was found": (WorstCase(k=K, radius=1.0, budget="fast"), SALIENT, "-"),
    }
    figure, axis = plt.subplots(figsize=(8, 3.4))
    for label, (attack, colour, style) in curves.items():
        found = attack(model, x, seed=0, radii=RADII)
        axis.plot(
            [0, *RADII],
            [100, *(100 * float(result.precision.mean()) for result in found)],
            color=colour,
            linestyle=style,
            label=label,
        )
    proven = [100 * float(certificate.precision_at(radius).mean()) for radius in RADII]
    axis.plot(
        [0, *RADII], [100, *proven], color=PROVEN, linestyle="-.", label="certificate: proven for every change"
    )
    axis.set_xlabel("L2 norm of the change, in standard deviations", fontsize=9, color=INK)
    axis.set_ylabel(f"P@{K}, percent", fontsize=9, color=INK)
    axis.legend(fontsize=8, frameon=False)
    axis.set_ylim(0, 103)
    _tidy(axis)
    save(figure, path)


def _tidy(axis: Any) -> None:
    axis.tick_params(labelsize=8, colors=INK)
    axis.grid(alpha=0.25)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
