"""Data sets by name: each module of this package adds its own with `@register(Info(...))`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from r2et.data.base import Dataset
from r2et.data.sources import File, ManualFile, find, obtain
from r2et.errors import InputError
from r2et.numerics.values import check_choice, check_seed, suggestion
from r2et.registry import Registry


@dataclass(frozen=True)
class Info:
    """What is known about a data set before any file is read.

    Args:
        name: what `load` is called with.
        description, citation, licence: one line each.
        rows, features, classes: of the whole set, all splits together.
        files: what has to be found or downloaded; none for data that ships with scikit-learn.
        stand_in: one file that may stand in for all of them: it is used where they are not on this machine, before
            anything is downloaded.
        folder: their sub-folder in `R2ET_DATA` and in the cache; the name, unless sets share their files.
        targets: names of the labels to choose from, the default first; empty where there is only one.
        options: further keywords that `load` takes for this set, with their defaults.
        k: the preset number of salient features.
        kind: how it is trained and attacked, a key of `r2et.recipes.PRESETS`; empty where only its layout decides.
        inputs: 2 if a row is a pair of inputs unless the options say otherwise, else 1.
    """

    name: str
    description: str
    citation: str
    licence: str
    rows: int
    features: int
    classes: int
    files: tuple[File, ...] = ()
    stand_in: ManualFile | None = None
    folder: str = ""
    targets: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    k: int = 8
    kind: str = ""
    inputs: int = 1


@dataclass(frozen=True)
class Request:
    """What a data set's builder gets: where its files are, the seed of the split, the chosen target and options.

    The paths are those of `info.files`, or the one of `info.stand_in`.
    """

    info: Info
    paths: tuple[Path, ...]
    seed: int
    target: str | None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """A data set that can be loaded: what is known about it, and the function that builds it."""

    info: Info
    build: Callable[[Request], Dataset]

    def __call__(self, request: Request) -> Dataset:
        """Build the data set."""
        return self.build(request)

    @property
    def __wrapped__(self) -> Callable[[Request], Dataset]:
        """The function tells which code this is, as of every decorated one."""
        return self.build


DATA_SETS: Registry[Source] = Registry(
    "data set", "r2et.data_sets", package="r2et.data", base=Source, instances=True
)


def register(info: Info) -> Callable[[Callable[[Request], Dataset]], Source]:
    """Decorator: the function below builds the data set `info.name`; it becomes a `Source`.

    A package of its own names that source in its entry points of the group `r2et.data_sets`.
    """

    def add(build: Callable[[Request], Dataset]) -> Source:
        return DATA_SETS.register(info.name, title=info.description)(Source(info, build))

    return add


def names() -> tuple[str, ...]:
    """The names that `load` knows.

    >>> names()
    ('abide', 'adult', 'bank', 'breast-cancer', 'cifar10', ..., 'compas', 'digits', 'mnist', 'mnist-pairs', 'oct')
    """
    return DATA_SETS.names()


def describe(name: str) -> Info:
    """What is known about a data set without reading it.

    >>> describe("compas").targets
    ('score', 'two_year_recid')
    """
    return DATA_SETS.find(name).thing.info


def fetch(name: str, *, progress: bool = True) -> tuple[Path, ...]:
    """Make a data set's files available on this machine and say where they are.

    Args:
        name: one of `names()`.
        progress: show a bar on stderr while downloading.

    >>> fetch("digits")  # ships with scikit-learn
    ()
    """
    info = describe(name)
    folder = info.folder or info.name
    present = [find(folder, file) for file in info.files]
    if None in present and info.stand_in is not None:
        stand_in = find(folder, info.stand_in)
        if stand_in is not None:
            return (stand_in,)
    return tuple(
        path or obtain(folder, file, progress=progress) for path, file in zip(present, info.files, strict=True)
    )


def load(name: str, *, seed: int = 0, target: str | None = None, **options: Any) -> Dataset:
    """A data set, split and scaled. Tables are split 70:15:15 with equal class proportions and scaled on train.

    Files are looked for in the folder named by the environment variable `R2ET_DATA`, then in the cache, then
    downloaded and checked.

    Args:
        name: one of `names()`, or `package.module:source`, which is imported.
        seed: which split; the same seed gives the same rows.
        target: which label, where a data set has several (`describe(name).targets`). None: the first.
        options: what else a data set can be asked for (`describe(name).options`), e.g. `pairs=False`.

    Returns:
        Splits with x (N, *features) or pairs (N, 2, *features), float32, and y (N,) int64; feature and class
        names, domain and preset k.

    >>> data = load("breast-cancer")
    >>> data.train.x.shape, data.train.y.shape
    (torch.Size([398, 30]), torch.Size([398]))
    >>> data.feature_names[:2], data.class_names
    (('mean radius', 'mean texture'), ('malignant', 'benign'))
    """
    source = DATA_SETS.find(name).thing
    info = source.info
    check_seed(seed)
    if target is None:
        target = info.targets[0] if info.targets else None
    elif info.targets:
        check_choice(f"target of {name}", target, info.targets)
    else:
        raise InputError(f"{name} has only one target, got target={target!r}: leave it out")
    for option, value in options.items():
        if option not in info.options:
            raise InputError(
                f"{name} has no option {option!r}{suggestion(option, list(info.options) or ['(none)'])}"
            )
        if isinstance(info.options[option], bool) and not isinstance(value, bool):
            raise InputError(f"{option} must be True or False, got {option}={value!r}")
    return source(Request(info, fetch(name), seed, target, {**info.options, **options}))
