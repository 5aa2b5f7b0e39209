"""Every Python block of the documentation and of the README runs, page by page, as a reader would run it."""

import importlib.util
import json
import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from typer.core import TyperGroup

import r2et
from r2et.cli import with_plug_ins
from tests.little_effort import little_effort

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)(```+|~~~+)([^\n]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)


def fenced(page: Path) -> list[tuple[str, str]]:
    """What each block says it is, and its text."""
    return [
        (label, "\n".join(line.removeprefix(indent) for line in code.splitlines()))
        for indent, _, label, code in BLOCK.findall(page.read_text())
    ]


def blocks(page: Path) -> list[str]:
    return [code for label, code in fenced(page) if label == "python"]


def figures():
    spec = importlib.util.spec_from_file_location("make_figures", ROOT / "docs" / "make_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def nilearn(monkeypatch):
    """nilearn downloads a gigabyte: here its function gives a few people, one of them with a silent region."""

    def fetch_abide_pcp(derivatives, quality_checked):
        assert (derivatives, quality_checked) == (["rois_aal"], False)
        drawn = np.random.default_rng(0)
        series = [drawn.normal(size=(150, 116)) for _ in range(40)]
        series[7][:, 3] = 0.0
        people = pd.DataFrame({"AGE_AT_SCAN": drawn.uniform(8, 30, 40), "DX_GROUP": drawn.integers(1, 3, 40)})
        return SimpleNamespace(rois_aal=series, phenotypic=people)

    datasets = ModuleType("nilearn.datasets")
    datasets.fetch_abide_pcp = fetch_abide_pcp
    monkeypatch.setitem(sys.modules, "nilearn", ModuleType("nilearn"))
    monkeypatch.setitem(sys.modules, "nilearn.datasets", datasets)


@pytest.mark.filterwarnings("ignore:invalid value encountered in divide")
@pytest.mark.usefixtures("nilearn")
def test_the_page_makes_connectomes_that_load(tmp_path, monkeypatch):
    (code,) = (block for block in blocks(ROOT / "docs" / "how-to" / "load-data.md") if "nilearn" in block)
    folder = tmp_path / "abide"
    folder.mkdir()
    monkeypatch.chdir(folder)
    exec(code, {})
    monkeypatch.setenv("R2ET_DATA", str(tmp_path))
    loaded = r2et.data.load("abide", target="diagnosis", pairs=False)
    assert sum(len(part.x) for part in (loaded.train, loaded.validation, loaded.test)) == 39


@pytest.mark.filterwarnings("ignore:invalid value encountered in divide")
@pytest.mark.usefixtures("nilearn")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.parametrize("effort", [little_effort, pytest.param(nullcontext, marks=pytest.mark.slow)])
def test_python_blocks_run(effort, page, tmp_path, monkeypatch):
    """With attacks of few steps, and slowly with all of them."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    namespace = {"__name__": "page"}
    with effort():
        for number, code in enumerate(blocks(page), 1):
            exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)


def test_there_are_blocks_to_run():
    assert sum(len(blocks(page)) for page in PAGES) > 60


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_of_python_goes_by_another_name(page):
    """Such as "py", under which it would be coloured but not run."""
    assert {label for label, _ in fenced(page)} <= {"python", "bash", "text", ""}
    assert not [
        code for label, code in fenced(page) if label != "python" and re.search(r"^(import|from) ", code, re.M)
    ]


def commands(page: Path) -> list[list[str]]:
    """What a reader types into a shell, without comments and without what columns of prose say beside it."""
    lines = "\n".join(code for label, code in fenced(page) if label in ("bash", "text", "")).splitlines()
    typed = [re.split(r"\s{2,}|\s#", line)[0] for line in lines if line.startswith("r2et ")]
    return [shlex.split(line)[1:] for line in typed]


def understood(arguments: list[str]) -> None:
    """Parse a command without running it."""
    command, path = typer.main.get_command(with_plug_ins()), []
    while isinstance(command, TyperGroup):
        name, *arguments = arguments
        path.append(name)
        assert name in command.commands, f"there is no command {' '.join(path)!r}"
        command = command.commands[name]
    command.make_context(" ".join(path), arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_the_options_that_pages_show(page, tmp_path, monkeypatch):
    # a command may check that a file exists
    monkeypatch.chdir(tmp_path)
    for arguments in commands(page):
        understood(arguments)


def test_there_are_commands_to_understand():
    assert sum(len(commands(page)) for page in PAGES) > 20


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train --data adult --nothing 3", "No such option"),
        ("trian", "no command 'trian'"),
        ("bench tabel honest", "no command 'bench tabel'"),
        ("bench table", "Missing"),
        ("train --data adult --epochs many", "valid int"),
    ],
)
def test_a_command_that_is_none_is_noticed(line, words):
    # whose class of errors it is depends on the version of typer
    with pytest.raises(Exception, match=words):
        understood(line.split())


@pytest.mark.parametrize("fence", ["```py", "```python3", "~~~python", "```{.python}", "    ```python title=''"])
def test_blocks_under_other_names_are_seen(fence, tmp_path):
    indent, mark = re.match(r"( *)(\W\W\W)", fence).groups()
    page = tmp_path / "page.md"
    page.write_text(f"text\n\n{fence}\nimport r2et\n{indent}{mark}\n")
    ((label, code),) = fenced(page)
    assert code == "import r2et"
    assert (label == "python") == (fence == "~~~python")


def test_the_picture_of_two_distances_shows_what_it_says():
    (_, far, far_distance, far_precision), (_, near, near_distance, near_precision) = figures().distance_example()
    assert near_distance < far_distance
    assert near_precision < far_precision == 1
    original = figures().ORIGINAL
    top = set(original.argsort(descending=True)[:3].tolist())
    assert len(top & set(near.argsort(descending=True)[:3].tolist())) == round(3 * near_precision)
    assert far_distance == pytest.approx(float(((far - original) ** 2).sum() ** 0.5))


def test_results_pages_are_made_from_the_results_files():
    made = figures()

    def results(name):
        return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())

    hunt = made.soundness_section(results("soundness"))
    for name, text in (
        ("attacks", made.attacks_page(results("attacks"))),
        (
            "certificates",
            made.certificates_page(results("certificates")) + made.memory_section(results("memory")) + hunt,
        ),
        ("brackets", made.brackets_page(results("brackets"))),
        ("reasons", made.reasons_page(results("stable_reasons"), results("reasons"))),
        ("speed", made.speed_page(results("speed"))),
        ("worst-case", made.worst_case_page(results("worst_case"))),
    ):
        assert (ROOT / "docs" / "results" / f"{name}.md").read_text() == text


def test_benchmark_pages_and_figures_are_made_from_the_records(tmp_path):
    made = figures()
    found = made.results()
    for name, page in made.PAGES.items():
        assert (ROOT / "docs" / "results" / f"{name}.md").read_text() == page(found), (
            f"run docs/make_figures.py: {name}"
        )
    readme = (ROOT / "README.md").read_text()
    assert readme == made.with_table(readme, made.readme_table(found))
    made.draw_all(found, tmp_path)
    drawn = sorted(tmp_path.iterdir())
    assert drawn
    for path in drawn:
        # the numbers in a drawing are its coordinates, which another version of matplotlib may round differently
        committed = (ROOT / "docs" / "images" / path.name).read_text()
        assert re.findall(r">([^<>]+)</text>|<!-- ([^<>]+) -->", committed) == re.findall(
            r">([^<>]+)</text>|<!-- ([^<>]+) -->", path.read_text()
        )
        assert abs(len(committed) - path.stat().st_size) < 0.02 * len(committed)
