"""The pictures of "What a list means": columns, threats, individuality, on a table that is drawn here."""

from pathlib import Path
from typing import Any

import torch

import r2et
from r2et.domain import Threat
from r2et.explainers import ColumnEffects, Gradient
from r2et.individuality import Individuality

INK, SALIENT, OTHER, PROVEN = "#444444", "#c2571a", "#9fb3c8", "#3a7d44"
NUMBERS = ("income", "debt", "age", "savings")
NAMES = (*NUMBERS, "job: clerk", "job: cook", "job: nurse", "home: rents", "home: owns", "married")
GROUPS = ((4, 5, 6), (7, 8))
K, PEOPLE = 3, 40
#: what is added off the sums of the groups: no row that exists has it
TERM = 30.0


def table(rows: int = 2000) -> tuple[torch.Tensor, torch.Tensor]:
    """Encoded rows (N, 10) of four numbers, two categories and a flag, and who was granted a loan (N,)."""
    draw = torch.Generator().manual_seed(0)
    numbers = torch.randn(rows, 4, generator=draw)
    job, home = (torch.randint(size, (rows,), generator=draw) for size in (3, 2))
    married = torch.randint(2, (rows, 1), generator=draw).float()
    x = torch.cat([numbers, torch.eye(3)[job], torch.eye(2)[home], married], 1)
    income, debt, age, savings = numbers.T
    margin = income - debt * (1 + 1.2 * (home == 0)) + 0.8 * income * (job == 1) + savings * torch.tanh(age)
    return x, (margin + 0.7 * married[:, 0] > 0.3).long()


class OffTheSums(torch.nn.Module):
    """A model with a term that is zero in every row that exists."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (N, 2)."""
        term = sum(TERM * (x[:, list(group)].sum(1) - 1) for group in GROUPS)
        return self.model(x) + torch.stack([-term / 2, term / 2], 1)  # type: ignore[operator]


def draw_lists(folder: Path, save: Any) -> None:
    """Write the three pictures."""
    x, y = table()
    torch.manual_seed(0)
    model = r2et.models.MLP(features=10, classes=2, activation="softplus", beta=5.0)
    parts = [r2et.data.Split(x[rows], y[rows]) for rows in (slice(0, 1600), slice(1600, 2000))]
    r2et.fit(model, *parts, settings=r2et.training.Settings(epochs=30, lr=1e-2, batch_size=64))
    columns = r2et.Columns.from_rows(x, r2et.Domain.from_rows(x), names=NAMES)
    _draw_columns(model, x[:1], columns, folder / "concept-columns.svg", save)
    _draw_threats(folder / "concept-threats.svg", save)
    _draw_people(model, x[1600:], columns, folder / "concept-individuality.svg", save)


def _draw_columns(model: Any, x: Any, columns: Any, path: Path, save: Any) -> None:
    import matplotlib.pyplot as plt

    effects = ColumnEffects(columns=columns)
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 4.8), sharey="col", height_ratios=[1, 1])
    for line, (words, network) in enumerate(
        {"the model": model, "the same predictions": OffTheSums(model)}.items()
    ):
        for place, (explainer, names) in enumerate([(Gradient(), NAMES), (effects, columns.names)]):
            scores = explainer(network, x)[0].detach()
            top = set(scores.topk(K).indices.tolist())
            axis = axes[line, place]
            axis.bar(range(len(names)), scores, color=[SALIENT if i in top else OTHER for i in range(len(names))])
            axis.set_xticks(range(len(names)), names if line else [], rotation=45, ha="right", fontsize=7)
            axis.set_title(f"{words}: {'effects of columns' if place else '|gradient| of features'}", fontsize=9)
            _tidy(axis)
    save(figure, path)


def _draw_threats(path: Path, save: Any) -> None:
    import matplotlib.pyplot as plt

    domain = r2et.Domain(groups=[[1, 2]])
    start = torch.tensor([0.0, 1.0, 0.0]).expand(400, 3)
    draw = torch.randn(400, 5, generator=torch.Generator().manual_seed(0))
    inside = 0.8 * draw[:, :3] / draw.norm(dim=1, keepdim=True)
    figure = plt.figure(figsize=(8.4, 3.1))
    threats: tuple[Threat, ...] = ("domain", "tangent", "paper")
    for number, threat in enumerate(threats, 1):
        axis: Any = figure.add_subplot(1, 3, number, projection="3d")
        reached = start + domain.reach(threat, 3).allowed(inside)
        axis.scatter(reached[:, 1], reached[:, 2], reached[:, 0], s=3, color=SALIENT, alpha=0.5)
        axis.plot([1, 0], [0, 1], [0, 0], color=INK, linewidth=1)
        axis.scatter([1, 0], [0, 1], [0, 0], s=30, color=PROVEN)
        axis.set(xlim=(-0.4, 1.6), ylim=(-0.8, 1.2), zlim=(-1, 1), xticks=[0, 1], yticks=[0, 1], zticks=[])
        axis.set_xlabel("nurse", fontsize=8)
        axis.set_ylabel("cook", fontsize=8)
        axis.set_zlabel("income", fontsize=8)
        axis.set_title(f'threat="{threat}"', fontsize=9)
        axis.tick_params(labelsize=7)
        axis.view_init(elev=22, azim=-60)
    save(figure, path)


def _draw_people(model: Any, x: Any, columns: Any, path: Path, save: Any) -> None:
    import matplotlib.pyplot as plt

    linear = r2et.models.Linear(10, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.stack([torch.zeros(10), torch.linspace(2, 0.2, 10)]))
    subjects = {
        "a linear model, by gradients": (Gradient()(linear, x), NAMES),
        "a network, by the effects of columns": (ColumnEffects(columns=columns)(model, x), columns.names),
    }
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8))
    for axis, (words, (scores, names)) in zip(axes, subjects.items(), strict=True):
        mask = r2et.ranking.top_k_mask(scores, K)
        lists = Individuality.of(mask)
        told = f"{lists.distinct} different lists, two people share {lists.overlap:.0%}"
        told = "one list for everybody" if lists.one_for_everybody else told
        axis.imshow(mask[:PEOPLE].T, aspect="auto", cmap=_two(OTHER, SALIENT), vmin=0, vmax=1)
        axis.set_yticks(range(len(names)), names, fontsize=7)
        axis.set_xlabel(f"{PEOPLE} people", fontsize=8)
        axis.set_title(f"{words}:\n{told}", fontsize=9)
        axis.set_xticks([])
    save(figure, path)


def _two(first: str, second: str) -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap(["#eef2f6" if first == OTHER else first, second])


def _tidy(axis: Any) -> None:
    axis.tick_params(labelsize=7, colors=INK)
    axis.grid(alpha=0.25)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
