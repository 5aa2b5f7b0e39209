"""Every file is written in one piece: on a full disk, after Ctrl-C, with half a character in a name."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import r2et
from r2et import report
from r2et.certificates.smoothing import NoisyCounts
from r2et_bench import figures
from r2et_bench.cells import Cell
from r2et_bench.records import Store, write_json
from tests.full_disk import no_file_above
from tests.report.audits import random_audit
from tests.test_cli import Run

OLD = b"the old file, worth keeping\n" * 3
SOURCE = Path(r2et.__file__).parent


# --- what writes ----------------------------------------------------------------------------------------------


def write_figure(path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([1, 2, 3])
    figures.save(figure, path)


def save_counts(path: Path) -> None:
    first = torch.randint(1000, (900,), generator=torch.Generator().manual_seed(0))
    counts = torch.stack([first, 1000 - first], dim=1)
    NoisyCounts(counts, torch.zeros(900, dtype=torch.int64), 1000, 0.25, 1, "Gradient()", 0).save(path)


def keep_arrays(path: Path) -> None:
    """Its folder and name are the store's; `path` is where they are."""
    Store(path.parent, path.parent).keep_arrays(CELL, "attacks", {"x": torch.rand(999)})


CELL = Cell("adult", "r2et")
FUNCTIONS = {
    "report.html": lambda path: report.write(random_audit(300, 20, 3), path),
    "record.json": lambda path: write_json(path, {"values": list(range(2000))}),
    "counts.npz": save_counts,
    "figure.svg": write_figure,
    "figure.png": write_figure,
    "figure.pdf": write_figure,
    f"arrays/{CELL.key}-attacks.npz": lambda path: keep_arrays(path.parent),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_full_disk_leaves_the_old_file(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(OLD)
    with no_file_above(1000), pytest.raises(r2et.errors.InputError) as caught:
        FUNCTIONS[name](path)
    assert str(caught.value) == f"cannot write {str(path)!r}: File too large"
    assert path.read_bytes() == OLD
    assert list(path.parent.iterdir()) == [path], "nothing is left behind"
    FUNCTIONS[name](path)
    assert path.stat().st_size > 1000, "negative control: there was something to write"


@pytest.fixture
def run(capsys):
    return lambda *arguments: Run(capsys, *arguments)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> list[object]:
    """The arguments that name a model and its data."""
    folder = tmp_path_factory.mktemp("model")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        r2et.save_model(r2et.models.MLP(3, 2, hidden=(4,), activation="softplus"), folder / "net")
    drawn = np.random.default_rng(0)
    frame = pd.DataFrame(drawn.normal(size=(60, 3)), columns=["a", "b", "c"]).assign(y=drawn.integers(0, 2, 60))
    frame.to_csv(folder / "rows.csv", index=False)
    return [folder / "net", "--data", folder / "rows.csv", "--target", "y", "-k", 1]


COMMANDS = {
    "certify": (["--method", "first-order"], "--output", "radii.csv"),
    "attack": (["--attack", "noise"], "--output", "attack.npz"),
    "audit": (["--budget", "fast", "--steps", 1, "--radii", "0.1", "--limit", 6], "--report", "page.html"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_a_full_disk_ends_with_a_sentence(run, model, tmp_path, command):
    options, output, name = COMMANDS[command]
    path = tmp_path / name
    path.write_bytes(OLD)
    with no_file_above(500):
        found = run(command, *model, *options, output, path)
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]
    assert found.code == 2
    assert found.err.endswith(f"error: cannot write {str(path)!r}: File too large\n")
    assert "Traceback" not in found.err


def test_a_table_of_the_benchmark_on_a_full_disk(run, tmp_path):
    records = SOURCE.parents[1] / "benchmarks" / "records"
    path = tmp_path / "table.md"
    path.write_bytes(OLD)
    table = ("bench", "table", "1", "--records", records, "--preset", "oct", "-o", path)
    with no_file_above(100):
        found = run(*table)
    assert found.code == 2
    assert found.err == f"error: cannot write {str(path)!r}: File too large\n"
    assert path.read_bytes() == OLD
    assert run(*table).code == 0
    assert len(path.read_bytes()) > 100


def test_the_full_device(run, model):
    found = run("certify", *model, "--method", "first-order", "-o", "/dev/full")
    assert found.code == 2
    assert found.err.endswith("error: cannot write '/dev/full': No space left on device\n")


def test_half_a_character_in_a_name_is_shown_and_the_report_is_whole(tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(OLD)
    audit = random_audit(20, 5, 2)
    nasty = replace(audit, feature_names=("caf\udce9", *audit.feature_names[1:]))
    report.write({"model \ud800": nasty}, path)
    text = path.read_bytes().decode()
    assert "caf\\udce9" in text
    assert "model \\ud800" in text
    assert text.rstrip().endswith("</html>")


# --- and nothing else writes ----------------------------------------------------------------------------------


def writes(node: ast.AST) -> bool:
    """Whether a call writes to a file by itself."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first = node.args[0] if node.args else None
    if isinstance(node.func, ast.Attribute):
        if name in ("write_text", "write_bytes", "rename", "renames", "save_file", "dump"):
            return True
        if name == "replace" and isinstance(node.func.value, ast.Name) and node.func.value.id == "os":
            return True
        if name in ("to_csv", "to_parquet", "to_json") and first is not None:
            return True
    if name.startswith(("savez", "savefig", "savetxt")):
        return not (isinstance(first, ast.Name) and first.id == "file")
    texts = [
        text.value for text in ast.walk(node) if isinstance(text, ast.Constant) and isinstance(text.value, str)
    ]
    return name == "open" and any(text in ("w", "wb", "a", "ab", "x", "xb", "r+b", "x+b", "w+b") for text in texts)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("Path(p).write_text('x')", True),
        ("open(p, 'wb')", True),
        ("Path(p).open('w')", True),
        ("os.replace(a, b)", True),
        ("frame.to_csv(path)", True),
        ("figure.savefig(path)", True),
        ("write_text(p, 'x')", False),
        ("open(p, 'rb')", False),
        ("text.replace('a', 'b')", False),
        ("frame.to_csv(index=False)", False),
        ("np.savez(file, x=x)", False),
    ],
)
def test_the_search_for_writers_finds_them(code, expected):
    assert any(map(writes, ast.walk(ast.parse(code)))) is expected


def test_no_module_writes_files_but_the_one():
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if writes(node) and path.parts[-2:] != ("files", "writing.py")
    ]
    assert found == []
