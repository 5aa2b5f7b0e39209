"""Three walks through r2et, traced: an audit, a classifier, a cell of the benchmark.

`python docs/walks.py` prints which modules are entered in which order, which files are read, what becomes a tensor or a
frame and which checks run, and draws docs/images/walks.svg for the page "How it works inside".
"""

import contextlib
import hashlib
import inspect
import io
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pandas as pd
import torch

import r2et
from r2et.cli import main
from r2et_bench import PLANS, BenchmarkPlan, Executor, Run, Store, Study
from r2et_bench.paper_tables import make_table
from r2et_bench.records import read_state
from r2et_bench.results import load_results
from r2et_bench.worker import perform

#: looks at a model or at data that are not called check_...
LOOKS = {"flaw", "piecewise_linear"}
#: every door has these: they look at a type or a shape, not at numbers
GUARDS = {
    "check_kind",
    "check_module",
    "check_ready",
    "check_shape",
    "check_traceable",
    "check_path",
    "check_writable",
}
#: what to open is code, not data
CODE = {".py", ".pyc", ".so", ".pth", ".html", ".js", ".css"}


@dataclass
class Trace:
    """What happened between `tracing` and its end.

    Attributes:
        modules: of r2et, in the order in which one of their functions was called first.
        reads: each file as often as it was opened for reading, with the module that wanted it.
        conversions: "table -> tensor" or "tensor -> frame", with the module that did it.
        back: modules that made a frame of numbers that had been a frame, or a tensor of the same numbers again.
        checks: how often each check ran on each thing; a thing is a tensor, a table, a model or a file.
    """

    modules: list[str] = field(default_factory=list)
    reads: list[tuple[str, Path]] = field(default_factory=list)
    conversions: list[tuple[str, str]] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    checks: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    _tensors: set[str] = field(default_factory=set)
    # a thing that is gone would give its address to another one
    _kept: list[Any] = field(default_factory=list)

    def files_read_twice(self) -> list[Path]:
        """Files that were opened for reading more than once."""
        return sorted(path for path, count in Counter(path for _, path in self.reads).items() if count > 1)

    def checks_run_twice(self) -> Counter[str]:
        """Checks that ran more than once on the same thing, and how often too often."""
        repeated: Counter[str] = Counter()
        for (check, *_), count in self.checks.items():
            if count > 1:
                repeated[check] += count - 1
        return repeated

    # --- what happens -----------------------------------------------------------------------------------------

    def call(self, frame: FrameType, event: str, _: object) -> None:
        """For sys.setprofile."""
        if event != "call":
            return
        module = str(frame.f_globals.get("__name__", ""))
        if frame.f_code is _MAKE_FRAME:
            self._to_frame(frame)
        # what runs while a module is imported is no function
        if not module.startswith(("r2et.", "r2et_bench")) or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return
        if module not in self.modules:
            self.modules.append(module)
        name = frame.f_code.co_name
        if name in LOOKS or (name.startswith("check") and name not in GUARDS):
            self._check(f"{module}.{name}", frame)

    def opened(self, path: object, mode: object) -> None:
        """A file was opened; only data that are read count."""
        if not isinstance(path, str | bytes | Path) or (isinstance(mode, str) and mode.strip("bt") != "r"):
            return
        place = Path(path.decode() if isinstance(path, bytes) else path)
        if (
            place.suffix in CODE
            or "site-packages" in place.parts
            or place.parts[:2] in (("/", "proc"), ("/", "sys"))
        ):
            return
        if place.is_file():
            self.reads.append((_reader(), place.resolve()))

    def to_tensor(self, values: object) -> None:
        """An array or a frame is becoming a tensor."""
        module = _caller()
        if module is None or (numbers := _digest(values)) is None:
            return
        self.conversions.append(("table -> tensor", module))
        if numbers in self._tensors:
            self.back.append(module)
        self._tensors.add(numbers)

    def _to_frame(self, frame: FrameType) -> None:
        module = _caller()
        if module is None or (numbers := _digest(frame.f_locals.get("data"))) is None:
            return
        self.conversions.append(("tensor -> frame", module))
        if numbers in self._tensors:
            self.back.append(module)

    def _check(self, name: str, frame: FrameType) -> None:
        arguments = inspect.getargvalues(frame)
        values = [arguments.locals[key] for key in arguments.args if key in arguments.locals]
        if not any(isinstance(value, _THINGS) for value in values):
            return
        self._kept.append(values)
        self.checks[(name, *map(_identity, values))] += 1


_THINGS = (torch.Tensor, torch.nn.Module, pd.DataFrame, pd.Series, Path)
_MAKE_FRAME: CodeType = pd.DataFrame.__init__.__code__


def _identity(value: object) -> object:
    """Equal for the same thing in the same state."""
    if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_meta:
        version = 0 if value.is_inference() else value._version
        return ("tensor", value.data_ptr(), tuple(value.shape), value.stride(), version)
    if isinstance(value, torch.nn.Module):
        # other weights are another model
        weights = [*value.parameters(), *value.buffers()]
        return ("model", id(value), value.training, *map(_identity, weights))
    if isinstance(value, str | int | float | bool | Path | None):
        return value
    return (type(value).__name__, id(value))


def _digest(values: object) -> str | None:
    """Of a table of numbers, in single precision; None for anything else."""
    numbers = values.to_numpy() if isinstance(values, pd.DataFrame) else values
    if not isinstance(numbers, np.ndarray) or numbers.ndim != 2 or numbers.dtype.kind not in "fiub":
        return None
    if numbers.size == 0 or len(numbers) < 2:
        return None
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype=np.float32).tobytes()).hexdigest()


def _reader() -> str:
    """The module of r2et that is at work; the one that reads files for all others does not count."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(("r2et.", "r2et_bench")) and not module.startswith("r2et.files"):
            return module
        frame = frame.f_back
    return ""


def _caller() -> str | None:
    """The module of r2et that is at work, if it called the library itself."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(("r2et.", "r2et_bench")):
            return module
        if module.partition(".")[0] not in ("pandas", "torch", __name__.partition(".")[0]):
            return None
        frame = frame.f_back
    return None


_ACTIVE: list[Trace] = []


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _ACTIVE:
        trace = _ACTIVE[-1]
        path, mode, _ = arguments
        trace.opened(path, mode)


@contextlib.contextmanager
def tracing() -> Iterator[Trace]:
    """Watch this thread; what is printed is kept from the terminal."""
    trace = Trace()
    originals = {name: getattr(torch, name) for name in ("from_numpy", "as_tensor", "tensor")}

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def convert(values: Any, *rest: Any, **options: Any) -> Any:
            trace.to_tensor(values)
            return original(values, *rest, **options)

        return convert

    for name, original in originals.items():
        setattr(torch, name, watched(original))
    _ACTIVE.append(trace)
    before = sys.getprofile()
    sys.setprofile(trace.call)
    threading.setprofile(trace.call)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield trace
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]  # that is how it is taken off
        _ACTIVE.pop()
        for name, original in originals.items():
            setattr(torch, name, original)


# a hook cannot be taken off: it does nothing while nobody traces
sys.addaudithook(_heard)


# --- the walks --------------------------------------------------------------------------------------------------


def people(rows: int = 40) -> tuple[pd.DataFrame, pd.Series]:
    """A small table of two numbers and a category, and what is to be predicted."""
    source = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": source.integers(18, 80, rows),
            "income": source.normal(30, 8, rows).round(1),
            "debts": source.normal(5, 2, rows).round(1),
            "town": source.choice(["north", "south"], rows),
        }
    )
    return frame, pd.Series(np.where(frame["income"] > frame["age"] / 2, "yes", "no"), name="bought")


def small_classifier() -> r2et.StableClassifier:
    """One that is fitted in a second."""
    return r2et.StableClassifier(
        k=2, hidden=(4,), epochs=2, settings={"gap": 0.1, "curvature": 0.1}, random_state=0
    )


def walk_audit(folder: Path) -> Trace:
    """`r2et audit model --data people.csv --target bought --report page.html`."""
    frame, labels = people()
    frame.assign(bought=labels).to_csv(folder / "people.csv", index=False)
    small_classifier().fit(frame, labels).save(folder / "model")
    effort = ["--budget", "fast", "--steps", "2", "--limit", "8", "--radii", "0.3"]
    data = ["--data", str(folder / "people.csv"), "--target", "bought", "--report", str(folder / "page.html")]
    with tracing() as trace, contextlib.suppress(SystemExit):
        main(["audit", str(folder / "model"), *data, *effort])
    if not (folder / "page.html").exists():
        raise AssertionError("the audit wrote no page")
    return trace


def walk_classifier() -> Trace:
    """`StableClassifier().fit(frame, labels).explain(frame)`."""
    frame, labels = people()
    with tracing() as trace:
        small_classifier().fit(frame, labels).explain(frame.head(6))
    return trace


class Here(Executor):
    """Does the jobs in this process, where they can be watched, each on a walk of its own: it is a process otherwise.

    Attributes:
        traces: of the jobs.
    """

    def __init__(self) -> None:
        self.traces: list[Trace] = []

    def run(self, jobs: Any, done: Any) -> None:
        """One after the other."""
        for job in jobs:
            with tracing() as trace:
                perform(job)
            self.traces.append(trace)
            done(job)


def one_cell() -> BenchmarkPlan:
    """The smoke benchmark with one method, one seed and little of everything."""
    studies = (
        Study("prediction"),
        Study("attacks", {"rows": 6, "steps": 2}),
        Study("worst", {"rows": 4, "budget": "fast"}),
    )
    return replace(
        PLANS["smoke"],
        methods=("vanilla",),
        seeds=1,
        schedule={"epochs": 1, "batch_size": 128},
        grid={},
        studies=studies,
        retrained=(),
        pairs={},
        further_seeds=0,
    )


def walk_bench(folder: Path, worker: Here) -> Trace:
    """`r2et bench run --preset smoke`, one cell; what the worker does is on its own walk."""
    with tracing() as trace:
        Run(one_cell(), Store(folder / "records", folder / "work"), worker)()
    return trace


def walk_table(folder: Path) -> Trace:
    """`r2et bench table honest`, of the records of `walk_bench`, as by a process of its own."""
    read_state.cache_clear()
    with tracing() as trace:
        make_table("honest", load_results(Store(folder / "records", folder / "work"), ["smoke"]))
    return trace


def walked(folder: Path) -> dict[str, Trace]:
    """All walks; the table is made of the records of the benchmark."""
    worker = Here()
    return {
        "r2et audit": walk_audit(folder),
        "StableClassifier().fit().explain()": walk_classifier(),
        "r2et bench run": walk_bench(folder, worker),
        "a worker of the benchmark": worker.traces[0],
        "r2et bench table": walk_table(folder),
    }


# --- for people -------------------------------------------------------------------------------------------------


def packages(trace: Trace) -> dict[str, list[str]]:
    """Packages in the order in which they were entered, each with its modules."""
    entered: dict[str, list[str]] = {}
    for module in trace.modules:
        parts = module.split(".")
        package = parts[0] if parts[0] == "r2et_bench" else parts[1]
        inner = parts[1:] if parts[0] == "r2et_bench" else parts[2:]
        entered.setdefault(package, []).extend([".".join(inner)] if inner else [])
    return entered


def told(name: str, trace: Trace) -> str:
    """A walk as text."""
    lines = [name, "-" * len(name)]
    lines += [f"  {package}: {', '.join(inner)}" for package, inner in packages(trace).items()]
    lines += [f"  reads {path.name} ({module})" for module, path in trace.reads]
    lines += [f"  {what} in {module}" for what, module in trace.conversions]
    lines.append(f"  {len(trace.checks)} checks of a tensor, a table, a model or a file")
    lines += [f"  TWICE: {path.name} is read again" for path in trace.files_read_twice()]
    lines += [f"  BACK: {module} converts what was converted" for module in trace.back]
    lines += [f"  AGAIN: {check}, {count} times" for check, count in trace.checks_run_twice().items()]
    return "\n".join(lines)


WIDTH, LINE, LETTERS = 270, 15, 40


def _wrapped(words: list[str]) -> list[str]:
    lines = [""]
    for word in words:
        joined = f"{lines[-1]}, {word}" if lines[-1] else word
        if len(joined) > LETTERS and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = joined
    return [line for line in lines if line]


def picture(traces: dict[str, Trace]) -> str:
    """The walks side by side, as SVG: packages from top to bottom in the order in which they are entered."""
    columns, heights = [], []
    for number, (name, trace) in enumerate(traces.items()):
        drawn, height = _column(name, trace, left=10 + number * (WIDTH + 20))
        columns.append(drawn)
        heights.append(height)
    width, height = len(traces) * (WIDTH + 20), max(heights) + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" role="img" aria-label="Walks through r2et">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(columns)}</svg>\n'
    )


def _column(name: str, trace: Trace, left: int) -> tuple[str, int]:
    parts = [f'<text x="{left}" y="24" font-size="14" font-weight="bold" fill="#222222">{escape(name)}</text>']
    top = 38
    for package, inner in packages(trace).items():
        notes = _notes(trace, package)
        lines = _wrapped(inner)
        height = 22 + LINE * (len(lines) + len(notes))
        parts.append(
            f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{height}" rx="4" fill="#f2f5f8" stroke="#9fb3c8"/>'
            f'<text x="{left + 8}" y="{top + 16}" font-weight="bold" fill="#1d3a57">{escape(package)}</text>'
        )
        for place, (line, colour) in enumerate([*((line, "#444444") for line in lines), *notes]):
            parts.append(
                f'<text x="{left + 8}" y="{top + 16 + LINE * (place + 1)}" fill="{colour}">{escape(line)}</text>'
            )
        top += height + 6
    return "".join(parts), top


def _short(name: str) -> str:
    """The name of a file without the digest in it."""
    return re.sub(r"-[0-9a-f]{12}(?=\.)", "", name)


def _notes(trace: Trace, package: str) -> list[tuple[str, str]]:
    """What a package reads, converts and checks, with a colour."""

    def here(module: str) -> bool:
        return package in module.split(".")[:2]

    reads = list(dict.fromkeys(_short(path.name) for module, path in trace.reads if here(module)))
    conversions = list(dict.fromkeys(what for what, module in trace.conversions if here(module)))
    checks = sum(here(check) for check, *_ in trace.checks)
    return [
        *((f"reads {line}", "#b04a00") for line in _wrapped(reads)),
        *((what, "#6a1b9a") for what in conversions),
        *([(f"{checks} check{'s' if checks > 1 else ''}", "#2e6b34")] if checks else []),
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        traces = walked(Path(place))
    print("\n\n".join(told(name, trace) for name, trace in traces.items()))
    target = Path(__file__).parent / "images" / "walks.svg"
    target.write_text(picture(traces), encoding="utf-8")
    print(f"\nwritten: {target.name}")
