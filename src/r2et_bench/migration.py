"""Records of version 1, named after the text of a preset, get keys of registered names: version 2.

    python -m r2et_bench.migration benchmarks/records [runs/bench]

It was run once over the committed records. Only keys change: the names of files, the description of the preset in
a cell, and the key of a search; every figure stays as it was.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from r2et.errors import InputError
from r2et.files.reading import read_json
from r2et_bench.cells import Cell, cell_from, search_key
from r2et_bench.plans import PLANS
from r2et_bench.records import Record, write_json

#: classes of version 1, as their text called them, by the names they had in the registry
_EXPLAINERS = {"Gradient": "gradient", "GradientTimesInput": "gradient-times-input", "Activation": "activation"}


def migrate(records: Path, work: Path | None = None) -> dict[str, str]:
    """Give every record of version 1 in the plans' folders its new name; what has one is left as it is.

    Args:
        records: the folder of the plans.
        work: where the models and arrays of the cells are, to be renamed too.

    Returns:
        New names of cells by their old ones.
    """
    names: dict[str, str] = {}
    for folder in sorted(path for path in records.iterdir() if path.is_dir()):
        old = {path: content for path in sorted(folder.glob("*.json")) if (content := _old(path)) is not None}
        cells = {path.stem: new_cell(content["cell"]) for path, content in old.items() if "cell" in content}
        for path, content in old.items():
            if "cell" in content:
                _check_name(path, content["cell"])
        names |= {stem: cell.name for stem, cell in cells.items()}
        for path, content in old.items():
            changed = _with_key(folder.name, path.stem, content, cells)
            write_json(folder / f"{names.get(path.stem, path.stem)}.json", {**changed, "version": 2})
            if path.stem in names:
                path.unlink()
    if work is not None:
        _rename_work(work, {old.rpartition("-")[2]: new.rpartition("-")[2] for old, new in names.items()})
    return names


def new_cell(content: Mapping[str, Any]) -> Cell:
    """The cell that version 1 described."""
    changed = dict(content)
    recipe = read_preset(changed.pop("made_with"))
    # the name of the preset is the cell's own
    recipe.pop("name")
    return cell_from({**changed, "recipe": recipe})


def read_preset(text: str) -> dict[str, Any]:
    """A preset of version 1 from its text; explainers become what the registry calls them.

    >>> read_preset("Preset(k=8, explainer=Gradient(reduce='abs'), training=Schedule(epochs=3, lr=0.1))")
    {'k': 8, 'explainer': {'name': 'gradient', 'reduce': 'abs'}, 'training': {'epochs': 3, 'lr': 0.1}}
    """
    try:
        value = _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, KeyError) as error:
        raise InputError(f"{text!r} is not the text of a preset of version 1") from error
    if not isinstance(value, dict):
        raise InputError(f"{text!r} is not the text of a preset of version 1")
    return value


def _value(node: ast.expr) -> Any:
    """A literal, or the settings of an object that is written as a call."""
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    settings = {str(part.arg): _value(part.value) for part in node.keywords}
    return settings if name in ("Preset", "Schedule") else {"name": _EXPLAINERS[name], **settings}


def _old(path: Path) -> Record | None:
    content: Record = read_json(path)
    return content if content.get("format") == "r2et-benchmark" and content.get("version") == 1 else None


def _check_name(path: Path, cell: Mapping[str, Any]) -> None:
    """Version 1 named a cell after this hash: a file of another name was changed by somebody."""
    digest = hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()[:12]
    if not path.stem.endswith(f"-{digest}"):
        raise InputError(f"{str(path)!r} does not hold the cell that its name says, whose hash is {digest}")


def _with_key(plan: str, stem: str, content: Record, cells: Mapping[str, Cell]) -> Record:
    if content["kind"] == "cell":
        return {**content, "cell": cells[stem].to_dict()}
    if content["kind"] == "index":
        entries = [{**entry, "name": cells[entry["name"]].name} for entry in content["cells"]]
        return {**content, "cells": entries}
    key = _key_of_search(plan, content, list(cells.values()))
    start, rest = dict(list(content.items())[:5]), dict(list(content.items())[5:])
    return content if key is None else {**start, "key": key, **rest}


def _key_of_search(plan: str, content: Record, cells: Sequence[Cell]) -> str | None:
    """Candidates differ from the winner's cell in their settings alone; without it, a search is made anew."""
    winners = [
        cell
        for cell in cells
        if (cell.data, cell.method, cell.seed) == (content["data"], content["method"], 0)
        and cell.boundary_pairs is None
        and dict(cell.settings) == content["chosen"]
    ]
    if not winners or plan not in PLANS:
        return None
    # the same settings are also retrained, with a schedule of its own (Table 8): the search was of the other
    winner = min(winners, key=lambda cell: cell.retrained)
    first = [entry["settings"] for entry in content["tried"] if entry["epochs"] == content["rungs"][0]]
    candidates = [cell_from({**winner.to_dict(), "settings": settings}) for settings in first]
    return search_key(candidates, content["rungs"], PLANS[plan].selection)


def _rename_work(work: Path, keys: Mapping[str, str]) -> None:
    """Models, unfinished runs and arrays of the cells; results of searches are in their records."""
    for folder in ("models", "unfinished", "arrays"):
        for path in sorted((work / folder).glob("*")):
            key, dash, rest = path.name.partition("-")
            if key in keys:
                path.rename(path.with_name(keys[key] + dash + rest))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python -m r2et_bench.migration RECORDS [WORK]")
    renamed = migrate(*map(Path, sys.argv[1:]))
    print(f"{len(renamed)} cells have new names")
