"""Records of a benchmark as tables want them: by data set and method, over seeds."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r2et.errors import InputError
from r2et.files.reading import typed
from r2et.foreign import is_code
from r2et.numerics.values import check_choice
from r2et.recipes import method_names, method_title
from r2et_bench.driver import failures
from r2et_bench.layout import TableEntry
from r2et_bench.plans import PLANS, find_plan
from r2et_bench.records import TIMING, Record, Store

#: as tables print them
DATA_TITLES = {
    "adult": "Adult",
    "bank": "Bank",
    "compas": "COMPAS",
    "mnist-pairs": "MNIST pairs",
    "cifar10": "CIFAR-10 (10,000 + 2,000)",
    "abide": "ABIDE",
    "oct": "OCT",
    "breast-cancer": "Breast cancer",
}


@dataclass(frozen=True)
class Row:
    """The records of one method on one data set, one per seed.

    Attributes:
        data, method: of which.
        records: in the order of seeds; what is not computed yet is missing.
        seeds: how many there are to be.
    """

    data: str
    method: str
    records: tuple[Record, ...]
    seeds: int
    role: str = "main"

    @property
    def title(self) -> str:
        """The method as tables print it."""
        return method_title(self.method) + (", lighter" if self.role == "lighter" else "")

    @property
    def ours(self) -> bool:
        """Whether it is R2ET or one of its variants."""
        return self.method.startswith("r2et")

    @property
    def settings(self) -> dict[str, float]:
        """The chosen hyper-parameters."""
        return dict(self.records[0]["cell"]["settings"]) if self.records else {}

    def values(self, path: str) -> dict[int, float]:
        """A number by seed; `path` is a study and a name in its values, e.g. "attacks/ERAttack"."""
        by_seed = {}
        for record in self.records:
            value = _look_up(record, path)
            if isinstance(value, int | float) and not isinstance(value, bool):
                by_seed[int(record["cell"]["seed"])] = float(value)
        return by_seed

    def first(self, path: str, kind: Any = Any) -> Any:
        """A value of some kind, of the first seed that has one; None if none has."""
        value = next((value for record in self.records if (value := _look_up(record, path)) is not None), None)
        where = f"the records of {self.title} on {self.data} cannot be shown, {path}"
        return None if value is None else typed(value, kind, where)

    def failure(self, path: str) -> str | None:
        """Why there is no such number, if something failed."""
        study = path.split("/")[0]
        for record in self.records:
            errors = failures(record)
            why = errors.get("training") or errors.get(study)
            if why:
                return why
        return None

    def passes(self) -> tuple[int, int]:
        """How many of the trained models reach the AUC threshold, and how many there are."""
        known = [record["training"]["passed"] for record in self.records if "passed" in record["training"]]
        return sum(known), len(known)

    def cost(self, vanilla: "Row | None") -> float | None:
        """The time of an epoch over that of an epoch of Vanilla; None if it is not known.

        Processor time, of seeds that the search did not train a part of; with the first seed alone it is the time
        on the clock, which depends on what else the machine does.
        """
        if vanilla is None:
            return None
        for measure in (_processor_time, _clock_time):
            own, base = measure(self), measure(vanilla)
            if own and base:
                return own / base
        return None


@dataclass(frozen=True)
class Results:
    """Everything that was computed.

    Attributes:
        rows: by data set, method and role: "main", "retrained", "lighter", or "pairs=3" for k' = 3.
        searches: what was tried, by data set and method.
        plans: of each data set, the name of its plan.
    """

    rows: dict[tuple[str, str, str], Row]
    searches: dict[tuple[str, str], Record]
    plans: dict[str, str]

    @property
    def data(self) -> list[str]:
        """Data sets, in the order of the plans."""
        return list(self.plans)

    def of(self, data: str, role: str = "main") -> list[Row]:
        """The rows of a data set, in the order of its plan."""
        rows = [row for (name, _, kind), row in self.rows.items() if (name, kind) == (data, role)]
        order = PLANS[self.plans[data]].methods
        return sorted(rows, key=lambda row: order.index(row.method) if row.method in order else len(order))

    def main(self) -> list[Row]:
        """The rows of all data sets."""
        return [row for data in self.data for row in self.of(data)]

    def row(self, data: str, method: str, role: str = "main") -> Row | None:
        """One row, or None."""
        return self.rows.get((data, method, role))


def load_results(store: Store, plans: Iterable[str] | None = None, data: Iterable[str] | None = None) -> Results:
    """Read the records of some plans, of all that there are by default.

    Args:
        store: where they are.
        plans: names; None = all but those that stand apart, or those if there is nothing else.
        data: only these data sets.
    """
    there = [name for name in PLANS if name in store.plans()]
    wanted = list(plans) if plans is not None else [name for name in there if not PLANS[name].apart] or there[:1]
    rows: dict[tuple[str, str, str], Row] = {}
    searches: dict[tuple[str, str], Record] = {}
    sources: dict[str, str] = {}
    only = None if data is None else set(data)
    for plan in wanted:
        index = store.read(find_plan(plan).name, "index")
        if index is None:
            raise InputError(
                f"there are no records of {plan!r} in {str(store.records)!r}: run `r2et bench run --preset {plan}`"
            )
        groups: dict[tuple[str, str, str], list[Record | None]] = {}
        if index["kind"] != "index":
            raise InputError(f"{str(store.path(plan, 'index'))!r} is not an index: it is a {index['kind']}")
        for entry in index["cells"]:
            if only is None or entry["data"] in only:
                record = _cell_record(store, plan, entry)
                groups.setdefault((entry["data"], entry["method"], entry["role"]), []).append(record)
                sources[entry["data"]] = plan
        for key, records in groups.items():
            known = tuple(record for record in records if record is not None)
            rows[key] = Row(*key[:2], known, len(records), key[2])
        for record in store.all(plan):
            if record["kind"] == "search":
                searches[record["data"], record["method"]] = record
    if not rows:
        raise InputError(
            f"there are no records{'' if only is None else f' of {sorted(only)}'} in {str(store.records)!r}: "
            "compute some with `r2et bench run`"
        )
    return Results(rows, searches, sources)


def _cell_record(store: Store, plan: str, entry: Record) -> Record | None:
    where = f"{str(store.path(plan, 'index'))!r} is not a benchmark's index"
    if not is_code(entry["method"]):
        check_choice(f"method in {str(store.path(plan, 'index'))!r}:", entry["method"], method_names())
    # a foreign index must not make us read outside of its folder
    if Path(entry["name"]).name != entry["name"]:
        raise InputError(f"{where}: {entry['name']!r} is not the name of a record")
    record = store.read(plan, entry["name"])
    if record is not None and record["kind"] != "cell":
        raise InputError(f"{where}: {entry['name']!r} is no cell, it is a {record['kind']}")
    return record


def entry_of(row: Row | None, path: str, scale: float = 1.0, digits: int = 4) -> TableEntry:
    """What the records of a row have to say, as mean and standard deviation over seeds."""
    if row is None:
        return TableEntry()
    scaled = [scale * value for value in row.values(path).values()]
    failure = row.failure(path)
    if failure is not None and len(scaled) < row.seeds:
        return TableEntry(failure=failure)
    if not scaled:
        return TableEntry()
    return TableEntry(
        mean=statistics.mean(scaled),
        std=statistics.stdev(scaled) if len(scaled) > 1 else None,
        seeds=len(scaled),
        digits=digits,
    )


def _processor_time(row: Row) -> float | None:
    seconds = [
        record[TIMING]["training"] / record["training"]["epochs"]
        for record in row.records
        if record["cell"]["seed"] > 0 and record["training"].get("epochs") and "training" in record[TIMING]
    ]
    return statistics.median(seconds) if seconds else None


def _clock_time(row: Row) -> float | None:
    seconds = [record[TIMING].get("seconds an epoch", 0.0) for record in row.records]
    return statistics.median(seconds) if seconds else None


def _look_up(record: Record, path: str) -> Any:
    study, *names = path.split("/")
    value = record["training"] if study == "training" else record["studies"].get(study, {}).get("values", {})
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
