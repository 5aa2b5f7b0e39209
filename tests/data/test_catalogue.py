import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from r2et import data
from r2et.errors import DataError, InputError

from . import files

FILE_SETS = ("adult", "bank", "compas")
TABLES = ("adult", "bank", "breast-cancer", "compas", "digits")
ARRAYS = ("abide", "cifar10", "cifar10-10k2k", "mnist", "mnist-pairs", "oct")
VARIANTS = [
    *((name, None) for name in TABLES),
    ("compas", "two_year_recid"),
]


def check_invariants(name: str, target: str | None) -> data.Dataset:
    """What holds for every table, whatever its rows; the data set for further questions."""
    info, made = data.describe(name), data.load(name, target=target)
    splits = (made.train, made.validation, made.test)
    n = info.features
    low, high = (torch.as_tensor(bound) for bound in (made.domain.lower, made.domain.upper))
    groups = [list(group) for group in made.domain.groups]
    numeric = (low != 0) | (high != 1)

    assert len(made.feature_names) == len(set(made.feature_names)) == n
    assert len(made.class_names) == info.classes
    assert made.k == info.k == 8
    assert (made.kind, made.inputs) == (info.kind, info.inputs) == ("tabular", 1)
    assert (made.name, made.description, made.citation, made.licence) == (
        name,
        info.description,
        info.citation,
        info.licence,
    )
    share = torch.bincount(torch.cat([split.y for split in splits])) / sum(map(len, splits))
    for split in splits:
        assert split.x.shape == (len(split), n)
        assert (split.x.dtype, split.y.dtype) == (torch.float32, torch.int64)
        assert set(split.x[:, ~numeric].unique().tolist()) <= {0.0, 1.0} or name == "digits"
        for group in groups:
            assert (split.x[:, group].sum(1) == 1).all()
        found = torch.bincount(split.y, minlength=info.classes) / len(split)
        assert torch.allclose(found, share, atol=1.5 / len(split))
    assert ((made.train.x >= low) & (made.train.x <= high)).all()
    assert numeric.any() == (name != "digits")
    for column in made.train.x[:, numeric].double().T:
        assert column.mean().item() == pytest.approx(0, abs=1e-5)
        assert column.std(correction=0).item() == pytest.approx(1, abs=1e-5)

    again, other = data.load(name, target=target), data.load(name, target=target, seed=1)
    assert torch.equal(again.test.x, made.test.x)
    assert torch.equal(again.test.y, made.test.y)
    assert not torch.equal(other.test.x, made.test.x)
    return made


@pytest.mark.usefixtures("synthetic")
@pytest.mark.parametrize(("name", "target"), VARIANTS)
def test_invariants(name: str, target: str | None) -> None:
    made = check_invariants(name, target)
    if name in FILE_SETS:
        assert sum(map(len, (made.train, made.validation, made.test))) == 150


@files.needs_real_files
@pytest.mark.parametrize(("name", "target"), [v for v in VARIANTS if v[0] in FILE_SETS])
def test_invariants_on_real_files(name: str, target: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2ET_DATA", files.REAL)
    made = check_invariants(name, target)
    assert sum(map(len, (made.train, made.validation, made.test))) == data.describe(name).rows


def check_array_invariants(name: str, **options: object) -> data.Dataset:
    """What holds for every set of images or graphs."""
    info, made = data.describe(name), data.load(name, **options)
    splits = (made.train, made.validation, made.test)
    n = made.train.x.shape[made.inputs :].numel()
    assert len(made.feature_names) == len(set(made.feature_names)) == n
    assert made.k == info.k == 50
    assert made.kind == info.kind
    assert options or made.inputs == info.inputs
    assert (made.description, made.citation, made.licence) != ("", "", "")
    assert (made.image_shape is None) != (made.region_names is None)
    assert isinstance(made.train, data.Pairs) == (made.inputs == 2)
    low, high = (torch.as_tensor(bound) for bound in (made.domain.lower, made.domain.upper))
    for split in splits:
        assert (split.x.dtype, split.y.dtype) == (torch.float32, torch.int64)
        assert len(split.x) == len(split.y)
        flat = split.x.flatten(made.inputs)
        assert ((flat >= low - 1e-5) & (flat <= high + 1e-5)).all()
        assert split.y.unique().tolist() == list(range(len(made.class_names)))
    if made.image_shape is not None:
        assert splits[0].x.shape[made.inputs :] == made.image_shape
    if made.inputs == 2:
        assert made.class_names == ("different", "same")
        assert len(made.member_class_names) == 2
        assert all(int(split.y.sum()) == len(split) // 2 for split in splits)
    again, other = data.load(name, **options), data.load(name, seed=1, **options)
    for part in ("train", "validation", "test"):
        first, second, third = (getattr(which, part) for which in (made, again, other))
        assert torch.equal(first.x, second.x)
        assert torch.equal(first.y, second.y)
        assert not torch.equal(first.x, third.x)
    return made


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in ARRAYS), ("abide", {"pairs": False}), ("oct", {"size": 32})],
)
def test_invariants_of_images_and_graphs(name: str, options: dict[str, object], arrays: Path) -> None:
    made = check_array_invariants(name, **options)
    assert made.name == ("cifar10-10k2k" if name == "cifar10" else name)


def test_every_set_is_listed_and_described() -> None:
    assert data.names() == tuple(sorted(TABLES + ARRAYS))
    for name in data.names():
        info = data.describe(name)
        assert info.name == name
        assert info.description
        assert info.citation
        assert info.licence


@pytest.mark.parametrize("call", [data.load, data.fetch, data.describe])
def test_unknown_name_suggests_the_closest(call) -> None:
    with pytest.raises(InputError, match="unknown data set 'breastcancer': did you mean 'breast-cancer'"):
        call("breastcancer")


def test_targets() -> None:
    with pytest.raises(InputError, match=r"digits has only one target, got target='income'"):
        data.load("digits", target="income")
    with pytest.raises(InputError, match="unknown target of compas 'two_year': did you mean 'two_year_recid'"):
        data.load("compas", target="two_year")


def test_options() -> None:
    with pytest.raises(InputError, match=r"abide has no option 'pair': did you mean 'pairs'\? Known: pairs"):
        data.load("abide", pair=False)
    with pytest.raises(InputError, match=r"digits has no option 'size'. Known: \(none\)"):
        data.load("digits", size=64)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "0", True])
def test_bad_seed(seed) -> None:
    with pytest.raises(InputError, match=f"seed must be .* got seed={seed!r}"):
        data.load("digits", seed=seed)


def test_a_new_set_is_one_registration() -> None:
    info = data.Info("mine", "my own", "me", "mine", rows=569, features=30, classes=2, k=3)

    @data.register(info)
    def mine(request: data.Request) -> data.Dataset:
        return data.DATA_SETS.find("breast-cancer").thing(request)

    assert "mine" in data.names()
    assert (data.load("mine").name, data.load("mine").k) == ("mine", 3)


PAIRS = (("rent", "no"), ("own", "yes"), ("?", "yes"))
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "load-data.md"


def test_the_how_to_page_adds_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = [
        code for code in re.findall(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL) if "@register" in code
    ]
    exec(example, {"__name__": "own_sets"})
    rows = [f"{age},{job},{home},{paid}" for age in range(9) for job in ("yes", "?") for home, paid in PAIRS]
    files.write_lines(tmp_path / "credit" / "credit.csv", ["age,job,housing,paid", *rows])
    monkeypatch.setenv("R2ET_DATA", str(tmp_path))
    made = data.load("credit")
    assert made.feature_names == ("age", "employed", "home: rented", "home: owned", "home: other")
    assert len(made.train) + len(made.validation) + len(made.test) == len(rows)


@pytest.mark.parametrize("name", FILE_SETS)
def test_fetch_says_where_the_files_are(name: str, synthetic: Path) -> None:
    expected = tuple(synthetic / name / file.name for file in data.describe(name).files)
    assert data.fetch(name) == expected


def test_no_file_is_needed_for_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2ET_DATA", str(tmp_path / "nowhere"))
    assert len(data.load("digits").train) == 1257
    with pytest.raises(DataError, match=r"R2ET_DATA=.*nowhere is not a folder"):
        data.load("bank")


def test_import_is_light() -> None:
    code = "import sys, r2et.data.catalogue as r; r.names(); print({'pandas', 'pooch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
