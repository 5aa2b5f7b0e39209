"""What a worker process does: train a cell, or part of the way, and measure it. Everything it says is in files."""

import json
import platform
import shutil
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import nn

import r2et
from r2et import data as data_sets
from r2et.attacks import ERAttack, WorstCase
from r2et.checkpoints import load_model, save_model
from r2et.data import Dataset, Split
from r2et.errors import InputError
from r2et.files.reading import read_json, typed
from r2et.files.writing import write_text
from r2et.numerics.once import looking_once
from r2et.recipes import Preset, Trial, find_method, find_preset, train_method
from r2et.recipes.selection import judge
from r2et.training import FitResult
from r2et_bench.cells import Cell, cell_from
from r2et_bench.plans import Study
from r2et_bench.records import TIMING, Record, Store, write_json
from r2et_bench.studied import STUDIES, StudiedModel


@dataclass(frozen=True)
class Job:
    """One piece of work, as plain values that travel to any process.

    Args:
        plan: name of the plan, whose folder the record goes to.
        records, work: folders of the store.
        cell: as `Cell.to_dict` describes it.
        vanilla: the cell of the vanilla model of the same seed; None for models that need none.
        studies: what to measure.
        rung: train only this many epochs and judge the model for the search; None = train to the end.
        selection: how the search judges: rows and steps.
    """

    plan: str
    records: str
    work: str
    cell: dict[str, Any]
    vanilla: dict[str, Any] | None = None
    studies: tuple[dict[str, Any], ...] = ()
    rung: int | None = None
    selection: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For progress bars and messages."""
        name = cell_from(self.cell).name
        return name if self.rung is None else f"{name} (search, {self.rung} epochs)"

    @property
    def store(self) -> Store:
        """Where everything is kept."""
        return Store(Path(self.records), Path(self.work))

    def is_done(self) -> bool:
        """Whether there is nothing left to do, not even what failed."""
        cell = cell_from(self.cell)
        if self.rung is not None:
            return self.store.rung(cell, self.rung, self.selection).exists()
        record = self.store.read(self.plan, cell.name)
        return record is not None and (
            "error" in record["training"]
            or all(not _is_wanted(record, _study(content)) for content in self.studies)
        )


@looking_once()
def perform(job: Job) -> None:
    """Do a job. An error of the cell is recorded, never raised: it is a result like any other."""
    torch.set_num_threads(1)
    if job.is_done():
        return
    if job.rung is not None:
        _climb(job)
    else:
        _complete(job)


def give_up(job: Job, reason: str) -> None:
    """Record that a job failed whatever was tried, for workers that cannot say so themselves."""
    cell = cell_from(job.cell)
    if job.rung is not None:
        write_json(job.store.rung(cell, job.rung, job.selection), {"error": reason})
        return
    record = job.store.read(job.plan, cell.name) or _blank(cell)
    if not record["training"]:
        record["training"] = {"error": reason}
    for content in job.studies:
        study = _study(content)
        if _is_wanted(record, study):
            record["studies"][study.name] = {"settings": dict(study.settings), "error": reason}
    job.store.write(job.plan, cell.name, record)


def _climb(job: Job) -> None:
    """Train a candidate up to a rung and judge it on validation data (B.1.2)."""
    assert job.rung is not None
    store, cell = job.store, cell_from(job.cell)
    data, preset = surroundings(cell)
    started = time.process_time()
    try:
        fitted = _train(job, cell, data, preset, epochs=job.rung)
        model, rows = fitted.model.eval(), job.selection["rows"]
        shared: dict[str, Any] = {"k": data.k, "radius": preset.radius, "explainer": preset.explainer}
        attacks = ERAttack(**shared, steps=job.selection["steps"]), WorstCase(**shared, budget="fast", version=1)
        precision, worst = (judge(model, data.validation.x, attack, limit=rows) for attack in attacks)
        content = trial_content(Trial(auc=fitted.auc, passed=fitted.passed, precision=precision, worst=worst))
        _refuse_nan(content)
    except Exception as error:
        content = trial_content(Trial(error=_in_words(error)))
    content["seconds"] = round(time.process_time() - started, 2)
    write_json(store.rung(cell, job.rung, job.selection), content)


def _complete(job: Job) -> None:
    store, cell = job.store, cell_from(job.cell)
    record = store.read(job.plan, cell.name) or _blank(cell)
    data, preset = surroundings(cell)
    try:
        model = _trained_model(job, cell, data, preset, record)
        store.write(job.plan, cell.name, record)
    except Exception as error:
        _explain(store, cell, error)
        record["training"] = {"error": _in_words(error)}
        store.write(job.plan, cell.name, record)
        return
    vanilla = None
    if job.vanilla is not None:
        vanilla = load_model(store.model(cell_from(job.vanilla)))[0]
    studied = StudiedModel(model, data, preset, cell, vanilla)
    for study in map(_study, job.studies):
        if not _is_wanted(record, study):
            continue
        started = time.process_time()
        entry: dict[str, Any] = {"settings": dict(study.settings)}
        try:
            outcome = STUDIES.find(study.name).thing(studied, **study.settings)
            store.keep_arrays(cell, study.name, outcome.arrays)
            _refuse_nan(outcome.values)
            entry["values"] = outcome.values
        except Exception as error:
            _explain(store, cell, error)
            entry["error"] = _in_words(error)
        record["studies"][study.name] = entry
        record[TIMING]["studies"][study.name] = round(time.process_time() - started, 2)
        store.write(job.plan, cell.name, record)


def _trained_model(job: Job, cell: Cell, data: Dataset, preset: Preset, record: Record) -> nn.Module:
    """The model of a cell, trained now unless it is there; the record learns how it went."""
    folder = job.store.model(cell)
    if (folder / "checkpoint.json").exists():
        model, information = load_model(folder)
        typed(information, _Trained, f"{str(folder)!r} is not a model of the benchmark")
    else:
        started = time.process_time()
        fitted = _train(job, cell, data, preset, epochs=None)
        model = fitted.model.eval()
        epochs = [record["seconds"] for record in fitted.records]
        information = {
            "training": {
                "validation auc": fitted.auc,
                "passed": fitted.passed,
                "threshold": _threshold(job, preset),
                "epochs": len(fitted.records),
                "selected epoch": fitted.selected_epoch,
                "stopped": fitted.stopped,
            },
            "seconds": round(time.process_time() - started, 2),
            "seconds an epoch": sorted(epochs)[len(epochs) // 2] if epochs else 0.0,
        }
        save_model(model, folder, cell=cell.to_dict(), **information)
        shutil.rmtree(job.store.run(cell), ignore_errors=True)
    record["training"] = information["training"]
    record[TIMING]["seconds an epoch"] = round(information["seconds an epoch"], 4)
    record[TIMING]["training"] = information["seconds"]
    return model


def _train(job: Job, cell: Cell, data: Dataset, preset: Preset, epochs: int | None) -> FitResult:
    """Train, from where an interrupted run or an earlier rung stopped."""
    vanilla = None if job.vanilla is None else load_model(job.store.model(cell_from(job.vanilla)))[0]
    retrains = cell.retrained or find_method(cell.method).retrains
    if retrains and vanilla is None:
        raise InputError(f"{cell.name} is retrained from a vanilla model, and there is none")
    options = {**cell.schedule, **({} if epochs is None else {"epochs": epochs})}
    return train_method(
        cell.method,
        _some(data.train, cell.limit),
        data.validation,
        data.k,
        dict(cell.settings),
        seed=cell.seed,
        vanilla=vanilla if retrains else None,
        preset=preset,
        threshold=_threshold(job, preset),
        checkpoint=job.store.run(cell),
        resume=True,
        accelerator="cpu",
        **options,
    )


def _threshold(job: Job, preset: Preset) -> float | None:
    """The validation AUC a model has to reach: a little less than that of the vanilla one (B.1.2)."""
    if job.vanilla is None:
        return None
    folder = job.store.model(cell_from(job.vanilla))
    information = load_model(folder)[1]
    training = typed(information, _Trained, f"{str(folder)!r} is not a model of the benchmark")["training"]
    return preset.threshold(training["validation auc"])


def surroundings(cell: Cell) -> tuple[Dataset, Preset]:
    """The data of a cell and its preset."""
    preset = preset_of(cell.data, cell.preset)
    if cell.boundary_pairs is not None:
        preset = replace(preset, boundary_pairs=cell.boundary_pairs)
    return _load(cell.data), preset


@lru_cache
def preset_of(data: str, name: str) -> Preset:
    """The preset of a data set, which is read only if it does not state its kind."""
    info = data_sets.describe(data)
    return find_preset(info if info.kind else _load(data), name)


@lru_cache(maxsize=2)
def _load(name: str) -> Dataset:
    return data_sets.load(name)


def _some(rows: Split, limit: int | None) -> Split:
    return rows if limit is None else Split(rows.x[:limit], rows.y[:limit])


def _study(content: Mapping[str, Any]) -> Study:
    return Study(name=content["name"], settings=content["settings"])


def study_content(study: Study) -> dict[str, Any]:
    """What a worker needs to know of a study."""
    content = asdict(study)
    return {"name": content["name"], "settings": content["settings"]}


def _is_wanted(record: Record, study: Study) -> bool:
    """Whether a study is missing from a record, or was made with other settings."""
    entry = record["studies"].get(study.name)
    return entry is None or entry["settings"] != dict(study.settings)


def _blank(cell: Cell) -> Record:
    return {
        "kind": "cell",
        "cell": cell.to_dict(),
        "training": {},
        "studies": {},
        "versions": {
            "r2et": r2et.__version__,
            "torch": torch.__version__.split("+")[0],
            "python": platform.python_version(),
        },
        TIMING: {"studies": {}},
    }


def _refuse_nan(values: Mapping[str, Any]) -> None:
    """A number that is none is a failure; a record could not hold it."""
    json.dumps(values, allow_nan=False)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _explain(store: Store, cell: Cell, error: Exception) -> None:
    """The traceback goes to the work folder: a record has room for one sentence."""
    write_text(store.work / "errors" / f"{cell.name}.txt", "".join(traceback.format_exception(error)))


def trial_content(trial: Trial) -> Record:
    """A trial as records write it."""
    if trial.error is not None:
        return {"error": trial.error}
    figures = {"validation auc": trial.auc, "passed": trial.passed, "precision": trial.precision}
    return figures if trial.worst is None else {**figures, "worst": trial.worst}


def rung_result(store: Store, cell: Cell, epochs: int, selection: Mapping[str, int]) -> Trial:
    """What the search found out about a candidate; an InputError if it is not there."""
    path = store.rung(cell, epochs, selection)
    where = f"{str(path)!r} cannot be read"
    content = typed(read_json(path), Record, where)
    if "error" in content:
        return Trial(error=typed(content, _Failure, where)["error"])
    figures = typed(content, _Rung, where)
    return Trial(
        auc=figures["validation auc"],
        passed=figures["passed"],
        precision=figures["precision"],
        worst=figures["worst"],
    )


class _Failure(TypedDict):
    error: str


_Rung = TypedDict("_Rung", {"validation auc": float, "passed": bool, "precision": float, "worst": float})
_Trained = TypedDict("_Trained", {"training": dict[str, Any], "seconds": float, "seconds an epoch": float})
