"""`Run`: everything a plan asks for, in the order of its dependencies; what is there is not done again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from r2et.errors import InputError
from r2et.numerics.values import check_kind
from r2et.progress import progress_bar
from r2et.recipes import Trial, find_method
from r2et.recipes.halving import Halving, Step, candidates, rung_epochs, settle
from r2et_bench.cells import Cell, cell_from, describe_preset, search_key
from r2et_bench.executors import Executor
from r2et_bench.plans import BenchmarkPlan, Study
from r2et_bench.records import Record, Store
from r2et_bench.trackers import Tracker
from r2et_bench.worker import Job, preset_of, rung_result, study_content, trial_content

Say = Callable[[str], None]
Settings = dict[str, float]


@dataclass
class Run:
    """One run of a plan.

    Args:
        plan: what to compute.
        store: where to.
        executor: who does the work.
        full_grid: train every candidate to the end instead of halving.
        retry_failed: do again what failed before.
        trackers: told of every record.
        say: called with one line about each finished piece of work.
        progress: show progress bars.
    """

    plan: BenchmarkPlan
    store: Store
    executor: Executor
    full_grid: bool = False
    retry_failed: bool = False
    trackers: Sequence[Tracker] = ()
    say: Say = lambda line: None
    progress: bool = False
    #: cells of second rows of the honest table
    _lighter: set[Cell] = field(init=False, repr=False, default_factory=set)

    def __post_init__(self) -> None:
        check_kind("plan", self.plan, BenchmarkPlan, 'r2et_bench.find_plan("smoke")')
        check_kind("store", self.store, Store, "r2et_bench.Store(records, work)")
        check_kind("executor", self.executor, Executor, "r2et_bench.LocalExecutor(2)")

    def __call__(self) -> dict[str, int]:
        """Compute what is missing; how many records there are and how many of them hold a failure."""
        if self.retry_failed:
            self._forget_failures()
        vanilla = self._vanilla()
        self._write_index(list(vanilla.values()))
        self._finish([(cell, None) for cell in vanilla.values()])
        chosen = {name: self._choose(name, vanilla[name, 0]) for name in self.plan.data}
        cells = self._cells(chosen, vanilla)
        every = [*vanilla.values(), *(cell for cell, _ in cells)]
        self._write_index(every)
        self._finish(cells)
        records = [record for cell in every if (record := self.store.read(self.plan.name, cell.name)) is not None]
        return {"records": len(records), "failed": sum(bool(failures(record)) for record in records)}

    def outlook(self) -> dict[str, int]:
        """What a call would do: candidates of searches to train, at most, and cells to train or to measure."""
        vanilla = self._vanilla()
        chosen: dict[str, dict[str, Settings]] = {}
        searches: dict[tuple[str, str], Halving[Cell]] = {}
        for name in self.plan.data:
            chosen[name], unsettled = self._recorded(name)
            searches |= {(name, method): search for method, search in unsettled.items()}
        cells = [(cell, None) for cell in vanilla.values()] + self._cells(chosen, vanilla)
        missing = [
            cell for cell, vanilla in cells if (cell.data, cell.method) in searches or self._is_open(cell, vanilla)
        ]
        count = sum(len(search.candidates) for search in searches.values())
        return {"candidates": count, "cells": len(missing)}

    def _is_open(self, cell: Cell, vanilla: Cell | None) -> bool:
        if not self._job(cell, vanilla, self._studies(cell)).is_done():
            return True
        record = self.store.read(self.plan.name, cell.name)
        return self.retry_failed and record is not None and bool(failures(record))

    def _vanilla(self) -> dict[tuple[str, int], Cell]:
        return {
            (name, seed): self._cell(name, "vanilla", {}, seed)
            for name in self.plan.data
            for seed in range(self.plan.seeds)
        }

    def _cells(
        self, chosen: Mapping[str, Mapping[str, Settings]], vanilla: Mapping[tuple[str, int], Cell]
    ) -> list[tuple[Cell, Cell | None]]:
        """Every cell but the vanilla ones, each with the vanilla one that it is compared with."""
        cells: list[tuple[Cell, Cell | None]] = []
        for name in self.plan.data:
            for method in self._others():
                for seed in range(self.plan.seeds_of(method)):
                    cell = self._cell(name, method, chosen[name][method], seed)
                    cells.append((cell, vanilla[name, seed]))
            cells += self._further(name, chosen[name], vanilla)
        # seed by seed: a run that is cut short has every row, with fewer seeds
        return sorted(cells, key=lambda pair: pair[0].seed)

    def _others(self) -> list[str]:
        return [method for method in self.plan.methods if method != "vanilla"]

    def _further(
        self, name: str, chosen: Mapping[str, Settings], vanilla: Mapping[tuple[str, int], Cell]
    ) -> list[tuple[Cell, Cell]]:
        """Retrained models (Table 8) and models with other numbers of pairs (Fig. 9)."""
        further = []
        for method in self.plan.retrained:
            for seed in range(min(self.plan.further_seeds, self.plan.seeds_of(method))):
                cell = self._cell(name, method, chosen[method], seed, retrained=True)
                further.append((cell, vanilla[name, seed]))
        for method, settings in self.plan.lighter.get(name, {}).items():
            for seed in range(min(3, self.plan.seeds)):
                cell = self._cell(name, method, settings, seed)
                if cell.settings != chosen[method]:
                    self._lighter.add(cell)
                    further.append((cell, vanilla[name, seed]))
        for method, data in self.plan.pairs.items():
            if name in data:
                k = preset_of(name, self.plan.preset).k
                for pairs in range(1, k + 1):
                    for seed in range(min(self.plan.further_seeds, self.plan.seeds)):
                        cell = self._cell(name, method, chosen.get(method, {}), seed)
                        further.append((replace(cell, boundary_pairs=pairs), vanilla[name, seed]))
        return further

    def _cell(
        self, data: str, method: str, settings: Mapping[str, float], seed: int, *, retrained: bool = False
    ) -> Cell:
        plan = self.plan
        blank = Cell(data, method, seed=seed, preset=plan.preset, limit=plan.limit)
        preset = preset_of(data, plan.preset)
        entry = find_method(method)
        # where the paper retrains its networks, every method that can starts from the vanilla one
        retrained = retrained or entry.retrains
        if preset.retrains and method != "vanilla" and not entry.changes_architecture:
            retrained = True
        return replace(
            blank,
            settings=entry.settings(settings, preset.kind),
            schedule=dict(plan.retraining if retrained else plan.schedule),
            recipe=describe_preset(preset),
            retrained=retrained,
        )

    def _choose(self, name: str, vanilla: Cell) -> dict[str, Settings]:
        """The hyper-parameters of each method, found on the first seed; the search is a record of its own."""
        chosen: dict[str, Settings] = {}
        for group in self._groups():
            settled, searches = self._offered(name, group, chosen)
            self._climb(name, searches, vanilla)
            chosen |= settled
            for method, search in searches.items():
                assert search.winner is not None
                chosen[method] = dict(search.winner.settings)
                content = {"kind": "search", "data": name, "method": method, "key": self._search_key(search)}
                self.store.write(self.plan.name, f"search-{name}-{method}", {**content, **_report(search)})
        return chosen

    def _recorded(self, name: str) -> tuple[dict[str, Settings], dict[str, Halving[Cell]]]:
        """What recorded searches chose, with defaults for the others; and those others, not begun."""
        chosen: dict[str, Settings] = {}
        missing: dict[str, Halving[Cell]] = {}
        for group in self._groups():
            settled, searches = self._offered(name, group, chosen)
            chosen |= settled | {method: {} for method in searches}
            missing |= searches
        return chosen, missing

    def _groups(self) -> tuple[list[str], list[str]]:
        """Methods that are searched on their own, and then those that are made of them."""
        retrained = [method for method in self.plan.retrained if find_method(method).retrains]
        every = list(dict.fromkeys([*self._others(), *retrained]))
        combined = [method for method in every if find_method(method).parts]
        return [method for method in every if method not in combined], combined

    def _offered(
        self, name: str, methods: Sequence[str], chosen: Mapping[str, Settings]
    ) -> tuple[dict[str, Settings], dict[str, Halving[Cell]]]:
        """Hyper-parameters that a record settles, or the lack of a choice; and searches for the others."""
        settled: dict[str, Settings] = {}
        searches: dict[str, Halving[Cell]] = {}
        for method in methods:
            offered = candidates(method, self.plan.grid.get(method, {}), chosen)
            cells = [self._cell(name, method, settings, 0) for settings in offered]
            search = Halving(cells, self._rungs(cells[0]))
            record = self.store.read(self.plan.name, f"search-{name}-{method}")
            if search.winner is not None:
                settled[method] = dict(search.winner.settings)
            elif record is not None and record.get("key") == self._search_key(search):
                settled[method] = record["chosen"]
            else:
                searches[method] = search
        return settled, searches

    def _search_key(self, search: Halving[Cell]) -> str:
        return search_key(search.candidates, search.rungs, self.plan.selection)

    def _rungs(self, cell: Cell) -> list[int]:
        preset = preset_of(cell.data, cell.preset)
        schedule = preset.retraining if cell.retrained else preset.training
        epochs = int(cell.schedule.get("epochs", schedule.epochs))
        # a learning rate that falls to zero over all epochs cannot be compared half-way
        whole = self.full_grid or schedule.annealed or cell.method in self.plan.patient
        return [epochs] if whole else rung_epochs(epochs, self.plan.rungs)

    def _climb(self, name: str, searches: Mapping[str, Halving[Cell]], vanilla: Cell) -> None:
        """All searches of a data set, rung by rung: candidates of different methods are trained side by side."""

        def try_out(steps: Mapping[str, Step[Cell]]) -> dict[str, dict[Cell, Trial]]:
            jobs = [
                self._job(cell, vanilla, rung=step.epochs) for step in steps.values() for cell in step.candidates
            ]
            self._perform(jobs, f"search, {name}")
            return {method: self._trials(step) for method, step in steps.items()}

        settle(searches, try_out)

    def _trials(self, step: Step[Cell]) -> dict[Cell, Trial]:
        return {cell: rung_result(self.store, cell, step.epochs, self.plan.selection) for cell in step.candidates}

    def _job(
        self, cell: Cell, vanilla: Cell | None, studies: Iterable[Study] = (), rung: int | None = None
    ) -> Job:
        needs_none = cell.method in ("vanilla", "linear")
        return Job(
            plan=self.plan.name,
            records=str(self.store.records.resolve()),
            work=str(self.store.work.resolve()),
            cell=cell.to_dict(),
            vanilla=None if vanilla is None or needs_none else vanilla.to_dict(),
            studies=tuple(study_content(study) for study in studies),
            rung=rung,
            selection=dict(self.plan.selection),
        )

    def _finish(self, cells: Sequence[tuple[Cell, Cell | None]]) -> None:
        jobs = [self._job(cell, vanilla, self._studies(cell)) for cell, vanilla in cells]
        self._perform(jobs, "train and measure")
        for cell, _ in cells:
            record = self.store.read(self.plan.name, cell.name)
            if cell.method == "vanilla" and record is not None and "error" in record["training"]:
                raise InputError(
                    f"the vanilla model of {cell.data!r}, seed {cell.seed}, could not be trained, and every other "
                    f"method is compared with it: {record['training']['error']}"
                )

    def _write_index(self, cells: Sequence[Cell]) -> None:
        """Which records belong to the plan, so that what an older one left in the folder is not counted.

        A run that starts again keeps the index of a run that knew more: the searches it made are still there.
        """
        entries = [
            {"name": cell.name, "data": cell.data, "method": cell.method, "role": self._role(cell)}
            for cell in cells
        ]
        known = self.store.read(self.plan.name, "index")
        if known is not None and {entry["name"] for entry in entries} <= {e["name"] for e in known["cells"]}:
            return
        self.store.write(self.plan.name, "index", {"kind": "index", "plan": self.plan.name, "cells": entries})

    def _role(self, cell: Cell) -> str:
        if cell.boundary_pairs is not None:
            return f"pairs={cell.boundary_pairs}"
        if cell in self._lighter:
            return "lighter"
        again = cell.retrained and not preset_of(cell.data, cell.preset).retrains
        return "retrained" if again else "main"

    def _studies(self, cell: Cell) -> list[Study]:
        role = self._role(cell)
        return [
            study
            for study in self.plan.studies
            if (role == "main" or (study.lighter if role == "lighter" else study.retrained))
            and (study.methods is None or cell.method in study.methods)
            and (study.seeds is None or cell.seed < study.seeds)
        ]

    def _perform(self, jobs: Sequence[Job], what: str) -> None:
        missing = [job for job in jobs if not job.is_done()]
        with progress_bar(what, len(missing), self.progress) as advance:

            def done(job: Job) -> None:
                advance(1)
                self.say(describe(job))
                if job.rung is None:
                    record = self.store.read(self.plan.name, cell_from(job.cell).name)
                    for tracker in self.trackers if record is not None else ():
                        tracker.record(self.plan.name, record)  # type: ignore[arg-type]  # not None here

            self.executor.run(missing, done)

    def _forget_failures(self) -> None:
        for record in self.store.all(self.plan.name):
            if record["kind"] == "cell" and failures(record):
                cell = cell_from(record["cell"])
                kept = {name: entry for name, entry in record["studies"].items() if "error" not in entry}
                if "error" in record["training"]:
                    self.store.path(self.plan.name, cell.name).unlink()
                else:
                    self.store.write(self.plan.name, cell.name, {**record, "studies": kept})


def _report(search: Halving[Cell]) -> Record:
    """What was tried and what was chosen, for the record."""
    assert search.winner is not None
    tried = [
        {"settings": dict(cell.settings), "epochs": epochs, **trial_content(trial)}
        for cell, epochs, trial in search.told
    ]
    return {"chosen": dict(search.winner.settings), "rungs": search.rungs, "tried": tried}


def failures(record: Record) -> dict[str, str]:
    """What went wrong in a cell, by the name of the study; "training" if there is no model.

    >>> failures({"training": {}, "studies": {"worst": {"error": "MemoryError: "}}})
    {'worst': 'MemoryError: '}
    """
    errors = {name: entry["error"] for name, entry in record["studies"].items() if "error" in entry}
    if "error" in record["training"]:
        errors["training"] = record["training"]["error"]
    return errors


def describe(job: Job) -> str:
    """One line about a finished job."""
    cell = cell_from(job.cell)
    if job.rung is not None:
        trial = rung_result(job.store, cell, job.rung, job.selection)
        if trial.error is not None:
            return f"{job.name}: {trial.error}"
        passed = "" if trial.passed else ", below the threshold"
        return f"{job.name}: AUC {trial.auc:.4f}, P@k {100 * trial.precision:.1f}{passed}"
    record: dict[str, Any] = job.store.read(job.plan, cell.name) or {"training": {}, "studies": {}}
    parts = []
    for study, name, label in (
        ("prediction", "auc", "AUC"),
        ("attacks", "ERAttack", "P@k ERAttack"),
        ("worst", "precision", "WorstCase"),
    ):
        value = record["studies"].get(study, {}).get("values", {}).get(name)
        if value is not None:
            parts.append(f"{label} {value:.4f}" if label == "AUC" else f"{label} {100 * value:.1f}")
    parts += [f"{name} failed: {why}" for name, why in failures(record).items()]
    return f"{job.name}: {', '.join(parts)}"
