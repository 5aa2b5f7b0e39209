"""Tests mirror the source: src/r2et/a/b.py is tested in tests/a/test_b.py."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
#: modules without a test file of their own; the number only gets smaller
WITHOUT_THEIR_OWN = 69


def own_test(package: str, module: Path) -> Path:
    """Where a module is tested; the benchmark has a folder of its own."""
    folder = Path("tests") / ("" if package == "r2et" else package) / module.parent
    return folder / f"test_{module.name}"


def modules() -> list[tuple[str, Path]]:
    """Every module but faces of packages, which import from the others."""
    return [
        (package, path.relative_to(ROOT / "src" / package))
        for package in ("r2et", "r2et_bench")
        for path in sorted((ROOT / "src" / package).rglob("*.py"))
        if not path.name.startswith("__")
    ]


def test_a_new_module_has_a_test_file_of_its_own():
    without = [
        f"{package}/{module}: {own_test(package, module)}"
        for package, module in modules()
        if not (ROOT / own_test(package, module)).exists()
    ]
    listed = "\n".join(without)
    assert len(without) <= WITHOUT_THEIR_OWN, f"write one of these:\n{listed}"


def test_the_place_of_a_test():
    assert own_test("r2et", Path("attacks/pgd.py")) == Path("tests/attacks/test_pgd.py")
    assert own_test("r2et_bench", Path("studies/masking.py")) == Path("tests/r2et_bench/studies/test_masking.py")
    assert len(modules()) > 150
