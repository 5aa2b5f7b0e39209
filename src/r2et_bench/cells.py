"""What one unit of the benchmark is: a cell, whose key says everything its model was made with."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from r2et.explainers import EXPLAINERS
from r2et.files.reading import typed
from r2et.numerics.values import check_seed, check_text
from r2et.recipes import Preset, Schedule

#: of what a key is computed from: whoever changes that counts up, and migrates records (`r2et_bench.migration`)
KEY_VERSION = 2


@dataclass(frozen=True)
class Cell:
    """One trained model of the benchmark: data set, method, hyper-parameters and seed.

    Args:
        data: name of the data set.
        method: as `r2et.recipes.find_method` takes it.
        settings: all hyper-parameters of the method.
        seed: of initialisation and training.
        preset: name of the data's preset, "cpu" or "paper".
        schedule: options of `fit` that differ from the preset's, such as {"epochs": 40}.
        recipe: the preset in full, as `describe_preset` writes it, so that a changed preset is another cell.
        retrained: trained from the vanilla model of the same seed instead of from scratch.
        boundary_pairs: k' of R2ET-mm, where a study varies it.
        limit: of the training rows, this many are used; None = all.

    >>> cell = Cell("adult", "r2et", {"gap": 1.0}, seed=0)
    >>> cell.key == Cell("adult", "r2et", {"gap": 1}, seed=0).key
    True
    >>> cell.key == Cell("adult", "r2et", {"gap": 0.2}, seed=0).key
    False
    """

    data: str
    method: str
    settings: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    preset: str = "cpu"
    schedule: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    retrained: bool = False
    boundary_pairs: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("data", "method", "preset"):
            check_text(name, getattr(self, name))
        check_seed(self.seed)

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> str:
        """A hash of the content: equal cells are the same work, whatever the classes of r2et are called."""
        return key_of({"version": KEY_VERSION, **self.to_dict()})

    @property
    def name(self) -> str:
        """How its files are called."""
        # the names of files have no colon everywhere
        method = self.method.replace(":", ".")
        kind = f"{method}-retrained" if self.retrained else method
        pairs = "" if self.boundary_pairs is None else f"-pairs{self.boundary_pairs}"
        return f"{self.data}-{kind}{pairs}-{self.seed}-{self.key}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def cell_from(content: Mapping[str, Any]) -> Cell:
    """The cell that `Cell.to_dict` described.

    >>> cell = Cell("adult", "r2et", {"gap": 0.1}, seed=3)
    >>> cell_from(json.loads(json.dumps(cell.to_dict()))) == cell
    True
    """
    return typed(dict(content), Cell, "it does not describe a cell")


def key_of(content: Mapping[str, Any]) -> str:
    """The first twelve digits of the SHA-256 of the content's canonical JSON.

    >>> key_of({"epochs": 2, "lr": 0.1}) == key_of({"lr": 0.1, "epochs": 2.0})
    True
    """
    text = json.dumps(_canonical(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def search_key(cells: Iterable[Cell], rungs: Sequence[int], selection: Mapping[str, int]) -> str:
    """Of a search for hyper-parameters: its candidates, when they are compared, and how they are judged."""
    keys = sorted(cell.key for cell in cells)
    return key_of({"version": KEY_VERSION, "cells": keys, "rungs": rungs, "selection": selection})


def _canonical(value: Any) -> Any:
    """JSON in which equal values are written alike: 2 as 2.0, a tuple as a list."""
    if isinstance(value, Mapping):
        return {name: _canonical(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_canonical(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def describe_preset(preset: Preset) -> dict[str, Any]:
    """What decides how a preset trains and attacks, as JSON: models and explainers by their registered names.

    The names are written out, because those of attributes may change and keys may not. Its `name` is the cell's
    own, and what suits its kind of data is in the cell's settings.

    >>> from r2et.recipes import PRESETS
    >>> recipe = describe_preset(PRESETS["tabular"]["cpu"])
    >>> recipe["explainer"]
    {'name': 'gradient', 'reduce': 'abs', 'inputs': 1, 'score': 'log-odds'}
    >>> recipe["retraining"]["epochs"], recipe["k"]
    (10, 8)
    """
    return {
        "architecture": dict(preset.architecture),
        "explainer": EXPLAINERS.describe(preset.explainer),
        "k": preset.k,
        "boundary_pairs": preset.boundary_pairs,
        "training": _describe_schedule(preset.training),
        "retraining": _describe_schedule(preset.retraining),
        "attack_step": preset.attack_step,
        "attack_steps": preset.attack_steps,
        "retrains": preset.retrains,
        "min_precision": preset.min_precision,
        "max_auc_drop": preset.max_auc_drop,
        "auc_margin": preset.auc_margin,
        "direction": preset.direction,
    }


def _describe_schedule(schedule: Schedule) -> dict[str, Any]:
    return {
        "epochs": schedule.epochs,
        "lr": schedule.lr,
        "batch_size": schedule.batch_size,
        "patience": schedule.patience,
        "optimiser": schedule.optimiser,
        "annealed": schedule.annealed,
    }
