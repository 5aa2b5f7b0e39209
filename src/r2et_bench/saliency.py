"""Explanations before and after an attack, drawn from trained models (Fig. 3 and 5)."""

from typing import TYPE_CHECKING

import torch

from r2et import report
from r2et.attacks import AttackResult, ERAttack
from r2et.checkpoints import load_model
from r2et.data import DATA_SETS, Dataset, GraphLayout, ImageLayout
from r2et.errors import InputError
from r2et.explainers import Activation
from r2et.recipes import Preset
from r2et_bench.cells import Cell, cell_from
from r2et_bench.records import Store
from r2et_bench.results import Results
from r2et_bench.worker import surroundings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: the one that is shown is the most typical of this many test inputs
PICTURED = 16


def saliency(results: Results, store: Store, method: str = "vanilla") -> "Figure":
    """Explanations of one test input before and after ERAttack (Fig. 3 and 5).

    Of images one row per method; of graphs the edges of one method as a circle.
    """
    for data in results.data:
        models = _models(results, store, data)
        if not models:
            continue
        dataset, preset = surroundings(next(iter(models.values())))
        if isinstance(dataset.layout, GraphLayout):
            wanted = {title: cell for title, cell in models.items() if cell.method == method}
            if not wanted:
                raise InputError(f"there is no model of method {method!r} on {data!r} in {str(store.work)!r}")
            title, result, shown = _pictured(wanted, store, dataset, preset)[0]
            drawn = result.before[shown, 0], result.after[shown, 0], dataset.layout, dataset.k
            return report.connectome_circle(*drawn, title=title)
        if isinstance(dataset.layout, ImageLayout) and not isinstance(preset.explainer, Activation):
            pictured = _pictured(models, store, dataset, preset)
            shown = pictured[0][2]
            return report.saliency_grid(
                dataset.test.x[shown],
                dataset.layout,
                torch.stack([result.before[shown] for _, result, _ in pictured]),
                torch.stack([result.after[shown] for _, result, _ in pictured]),
                dataset.k,
                titles=[title for title, _, _ in pictured],
            )
    raise InputError(
        f"saliency maps need image or graph data and its trained models, and {str(store.work)!r} holds none: run "
        "`r2et bench run --preset mnist` first, or name the folder of the models with --work"
    )


def _models(results: Results, store: Store, data: str) -> dict[str, Cell]:
    """The first seed's models of a data set that are still there."""
    cells = {row.title: cell_from(row.records[0]["cell"]) for row in results.of(data) if row.records}
    for cell in cells.values():
        # code that a record names is not imported
        DATA_SETS.stored(cell.data)
    return {title: cell for title, cell in cells.items() if store.model(cell).exists()}


def _pictured(
    models: dict[str, Cell], store: Store, dataset: Dataset, preset: Preset
) -> list[tuple[str, AttackResult, int]]:
    """Each model's attacked test inputs, and which is shown: where all do about as they do on the mean."""
    attack = ERAttack(k=dataset.k, radius=preset.radius, steps=preset.attack_steps, explainer=preset.explainer)
    x = dataset.test.x[:PICTURED]
    attacked = {title: attack(load_model(store.model(cell))[0], x, seed=0) for title, cell in models.items()}
    precision = torch.stack([result.precision for result in attacked.values()])
    shown = int((precision - precision.mean(1, keepdim=True)).abs().sum(0).argmin())
    return [(title, result, shown) for title, result in attacked.items()]
