"""The table of data sets: each module of this package adds its own with `@register(Info(...))`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from r2et._checks import InputError, check_choice
from r2et.data.base import Dataset
from r2et.data.sources import RemoteFile, locate


@dataclass(frozen=True)
class Info:
    """What is known about a data set before any file is read.

    Args:
        name: what `load` is called with; also its sub-folder in `R2ET_DATA` and in the cache.
        description, citation, licence: one line each.
        rows, features, classes: of the whole set, all splits together.
        files: what has to be found or downloaded; none for data that ships with scikit-learn.
        targets: names of the labels to choose from, the default first; empty where there is only one.
        k: the preset number of salient features.
    """

    name: str
    description: str
    citation: str
    licence: str
    rows: int
    features: int
    classes: int
    files: tuple[RemoteFile, ...] = ()
    targets: tuple[str, ...] = ()
    k: int = 8


@dataclass(frozen=True)
class Request:
    """What a data set's builder gets: where its files are, the seed of the split, the chosen target."""

    info: Info
    paths: tuple[Path, ...]
    seed: int
    target: str | None


Builder = Callable[[Request], Dataset]
REGISTRY: dict[str, tuple[Info, Builder]] = {}


def register(info: Info) -> Callable[[Builder], Builder]:
    """Decorator: the function below builds the data set `info.name`."""

    def add(build: Builder) -> Builder:
        REGISTRY[info.name] = (info, build)
        return build

    return add


def names() -> tuple[str, ...]:
    """The names that `load` knows.

    >>> names()
    ('adult', 'bank', 'breast-cancer', 'compas', 'digits')
    """
    return tuple(sorted(REGISTRY))


def describe(name: str) -> Info:
    """What is known about a data set without reading it.

    >>> describe("compas").targets
    ('score', 'two_year_recid')
    """
    return _entry(name)[0]


def fetch(name: str, *, progress: bool = True) -> tuple[Path, ...]:
    """Make a data set's files available on this machine and say where they are.

    Args:
        name: one of `names()`.
        progress: show a bar on stderr while downloading.

    >>> fetch("digits")  # ships with scikit-learn
    ()
    """
    info = describe(name)
    return tuple(locate(info.name, file, progress=progress) for file in info.files)


def load(name: str, *, seed: int = 0, target: str | None = None) -> Dataset:
    """A data set, split 70:15:15 with equal class proportions and scaled on train.

    Files are looked for in the folder named by the environment variable `R2ET_DATA`, then in the cache, then
    downloaded and checked.

    Args:
        name: one of `names()`.
        seed: which split; the same seed gives the same rows.
        target: which label, where a data set has several (`describe(name).targets`). None: the first.

    Returns:
        Splits with x (N, n) float32 and y (N,) int64, feature and class names, domain and preset k.

    >>> data = load("breast-cancer")
    >>> data.train.x.shape, data.train.y.shape
    (torch.Size([398, 30]), torch.Size([398]))
    >>> data.feature_names[:2], data.class_names
    (('mean radius', 'mean texture'), ('malignant', 'benign'))
    """
    info, build = _entry(name)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"seed must be a whole number from 0 to 2**32 - 1, got {seed!r}")
    if target is None:
        target = info.targets[0] if info.targets else None
    elif info.targets:
        check_choice(f"target of {name}", target, info.targets)
    else:
        raise InputError(f"{name} has only one target, got target={target!r}: leave it out")
    return build(Request(info, fetch(name), seed, target))


def _entry(name: str) -> tuple[Info, Builder]:
    check_choice("data set", name, names())
    return REGISTRY[name]
