import sys

import pytest

from r2et.errors import InputError
from r2et.foreign import code_of, import_code, is_code


def test_which_texts_name_code():
    assert is_code("shop.models:make")
    assert is_code("shop:Net.fresh")
    assert not any(
        map(is_code, ["shop.models", "runs/a:b/c", "C:\\models\\net.pt2", ":make", "shop:", "a b:c", 5, None])
    )


def test_a_class_is_found_by_what_it_is_called(tmp_path, monkeypatch):
    (tmp_path / "own_shop.py").write_text("class Net:\n    class Inner: pass\n    def fresh(self): pass\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    inner = import_code("own_shop:Net.Inner")
    assert sys.path == path
    assert code_of(inner) == "own_shop:Net.Inner"
    assert import_code(code_of(inner)) is inner


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere_at_all:Net", "module 'nowhere_at_all' of 'nowhere_at_all:Net' cannot be imported"),
        ("own_bad:Net", "importing 'own_bad' raised ZeroDivisionError"),
        ("own_exit:Net", "importing 'own_exit' raised SystemExit"),
        ("own_fine:Ned", "'own_fine' has no 'Ned'. Known: Net"),
        ("own_odd:Net", "looking up 'Net' raised KeyError"),
    ],
)
def test_what_cannot_be_imported_is_told(source, message, tmp_path, monkeypatch):
    for name, code in {
        "own_bad": "1 / 0",
        "own_exit": "import sys; sys.exit(1)",
        "own_fine": "class Net: pass",
        "own_odd": "def __getattr__(name):\n    raise {'Net': KeyError}.get(name, AttributeError)(name)",
    }.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        import_code(source)
