"""What the package says of itself is true, and said in one place."""

import ast
import re
import runpy
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import r2et

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
#: where what is imported is called otherwise than what is installed
DISTRIBUTIONS = {
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "lightning_fabric": "lightning-fabric",
    "mlflow": "mlflow-skinny",
}


def distribution(requirement: str) -> str:
    """What is installed, without versions and extras."""
    return re.split(r"[\[<>=!~; ]", requirement)[0]


def imported(text: str) -> set[str]:
    """The packages that a module imports, at its top or later."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def foreign(package: str) -> set[str]:
    """The distributions that a package of ours imports."""
    files = list((ROOT / "src" / package).rglob("*.py"))
    assert files
    names = set().union(*(imported(path.read_text()) for path in files))
    names -= sys.stdlib_module_names | {"r2et", "r2et_bench"}
    return {DISTRIBUTIONS.get(name, name) for name in names}


def test_the_version_is_said_in_one_place():
    assert "version" in PROJECT["dynamic"]
    assert metadata.version("r2et") == r2et.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == r2et.__version__
    assert f"## {r2et.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_what_is_imported_is_declared():
    declared = {distribution(entry) for entry in PROJECT["dependencies"]}
    declared |= {distribution(entry) for entries in EXTRAS.values() for entry in entries}
    assert foreign("r2et") | foreign("r2et_bench") <= declared


def test_what_is_declared_is_imported():
    """A dependency that nothing imports is one too many."""
    declared = {distribution(entry) for entry in PROJECT["dependencies"]}
    assert declared <= foreign("r2et") | foreign("r2et_bench")


def test_every_dependency_has_a_lower_bound_that_is_tested():
    pins = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))["lowest"](PROJECT["dependencies"])
    assert {pin.partition("==")[0] for pin in pins} == {distribution(entry) for entry in PROJECT["dependencies"]}
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert {"run": "make lowest"}.items() <= workflow["jobs"]["lowest"]["steps"][-1].items()


def test_the_quick_part_of_the_tests_is_there():
    """pytest runs nothing at all if one of the named files is missing."""
    named = re.findall(r"tests/[\w/.]+", (ROOT / "Makefile").read_text())
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_coverage_has_a_floor():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]
    assert settings["report"]["fail_under"] >= 71
    assert settings["run"]["source_pkgs"] == ["r2et", "r2et_bench"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import scipy.stats as s", {"scipy"}),
        ("def f():\n    from PIL import Image", {"PIL"}),
        ("from . import near\nfrom .near import thing", set()),
    ],
)
def test_imports_are_seen(text, names):
    assert imported(text) == names


def test_the_constraints_pin_every_dependency():
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines("constraints.txt")}
    wanted = {distribution(entry) for entry in PROJECT["dependencies"]}
    wanted |= {distribution(entry) for entries in EXTRAS.values() for entry in entries} - {"r2et"}
    assert {name.lower().replace("_", "-") for name in wanted} <= pinned


def test_ci_tests_the_oldest_and_the_newest_torch():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    matrix = workflow["jobs"]["tests"]["strategy"]["matrix"]["include"]
    (claimed,) = (entry for entry in PROJECT["dependencies"] if distribution(entry) == "torch")
    (newest,) = (line.partition("==")[2] for line in lines("constraints.txt") if line.startswith("torch=="))
    assert {entry["torch"] for entry in matrix} >= {claimed.removeprefix("torch>=") + ".0", newest}
    named = {entry.rpartition(" ")[2] for entry in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", entry)}
    assert {entry["python"] for entry in matrix} == named


def lines(name: str) -> list[str]:
    """The lines of a file, without comments."""
    return [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
