"""What a data set is, and the pipeline that every table goes through: split, then scale on train only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from r2et.columns import Columns
from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.domain import Domain
from r2et.errors import DataError, InputError
from r2et.numerics.checks import check_inputs, check_labels
from r2et.numerics.values import check_k, check_kind, check_names, is_whole
from r2et.tables.declared import Feature
from r2et.tables.splits import split_rows

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from r2et.data.catalogue import Request


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Inputs and their class numbers.

    Args:
        x: inputs (N, *features), float32; pairs of inputs (N, 2, *features).
        y: class numbers (N,), int64.

    >>> Split(x=torch.zeros(4, 3), y=torch.tensor([0, 1, 1, 0]))
    Split(4 rows of 3 features)
    """

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        check_inputs(self.x)
        check_labels(self.y, len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"Split({len(self)} rows of {self.x[0].numel()} features)"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three splits and what is known about their features.

    Args:
        name: what the data set is called.
        train, validation, test: inputs (N, *features), or pairs of them (N, 2, *features), and class numbers (N,)
            each. A train split with a method `redraw(generator)` gives other rows in each epoch (`DrawnPairs`).
        feature_names: n names, one for each feature of one input, in the order of its flattened axes.
        class_names: one name for each class; class number c is `class_names[c]`.
        domain: the values that the n features can take, in the units of x.
        k: how many salient features to look at unless a user says otherwise.
        description, citation, licence: for reports.
        inputs: 2 if a row is a pair of inputs, else 1.
        layout: for pictures, how the features of one input lie: an image, the edges of a graph, or None.
        member_class_names: of pairs, the classes that `Pairs.members` numbers.
        columns: which features make up which column of a table; None for other data.
        kind: how it is trained and attacked, a key of `r2et.recipes.PRESETS`; left out, images are trained as
            "cifar10", graphs as "graphs", and everything else as "tabular".

    >>> part = Split(x=torch.rand(4, 3), y=torch.tensor([0, 1, 1, 0]))
    >>> Dataset("mine", part, part, part, ("a", "b", "c"), ("no", "yes"), Domain(0.0, 1.0), k=1)
    Dataset(name='mine', train=Split(4 rows of 3 features), ..., class_names=('no', 'yes'), k=1)
    """

    name: str
    train: Split
    validation: Split
    test: Split
    feature_names: tuple[str, ...] = field(repr=False)
    class_names: tuple[str, ...]
    domain: Domain = field(repr=False)
    k: int = 8
    description: str = field(default="", repr=False)
    citation: str = field(default="", repr=False)
    licence: str = field(default="", repr=False)
    inputs: int = field(default=1, repr=False)
    layout: ImageLayout | GraphLayout | None = field(default=None, repr=False)
    member_class_names: tuple[str, ...] = field(default=(), repr=False)
    columns: Columns | None = field(default=None, repr=False)
    kind: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for name in ("train", "validation", "test"):
            check_kind(name, getattr(self, name), Split, "r2et.data.Split(x, y)")
        check_kind("domain", self.domain, Domain, "r2et.Domain()")
        for name in ("feature_names", "class_names"):
            object.__setattr__(self, name, check_names(name, getattr(self, name)))
        shape = self.train.x.shape[1:]
        if (
            not is_whole(self.inputs)
            or self.inputs not in (1, 2)
            or (self.inputs == 2 and (len(shape) < 2 or shape[0] != 2))
        ):
            raise InputError(
                f"{self.name}: inputs={self.inputs} does not fit rows of shape {tuple(shape)}; "
                "a pair has shape (2, *features) and inputs=2, anything else inputs=1"
            )
        n = shape[self.inputs - 1 :].numel()
        for name, split in (("train", self.train), ("validation", self.validation), ("test", self.test)):
            if split.x.shape[1:] != shape:
                raise InputError(
                    f"{self.name}: one input has shape {tuple(split.x.shape[1:])} in {name}, "
                    f"but {tuple(shape)} in train"
                )
            low, high = int(split.y.min()), int(split.y.max())
            if low < 0 or high >= len(self.class_names):
                raise InputError(
                    f"{self.name}: labels of {name} go from {low} to {high}, but the {len(self.class_names)} "
                    f"class names {self.class_names} stand for 0 to {len(self.class_names) - 1}"
                )
        if len(self.feature_names) != n:
            raise InputError(f"{self.name}: {len(self.feature_names)} feature names for {n} features")
        if self.layout is not None and self.layout.features != n:
            raise InputError(f"{self.name}: {self.layout!r} has {self.layout.features} features, inputs have {n}")
        self.domain.check(n)
        if self.columns is not None:
            check_kind("columns", self.columns, Columns, "r2et.Columns.from_rows(x, domain)")
            if self.columns.n != n:
                raise InputError(f"{self.name}: {self.columns!r} for inputs of {n} features")
        check_k(self.k, n)
        if not self.kind:
            by_layout = {ImageLayout: "cifar10", GraphLayout: "graphs"}
            object.__setattr__(self, "kind", by_layout.get(type(self.layout), "tabular"))

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """(channels, height, width) of one image; None for other data."""
        return self.layout.shape if isinstance(self.layout, ImageLayout) else None

    @property
    def region_names(self) -> tuple[str, ...] | None:
        """The nodes of a graph, whose edges are the features; None for other data."""
        return self.layout.regions if isinstance(self.layout, GraphLayout) else None


def tabular_dataset(
    request: "Request",
    frame: "pd.DataFrame",
    features: Sequence[Feature],
    labels: "pd.Series[int]",
    class_names: Sequence[str],
) -> Dataset:
    """Split a table, standardise its numbers on train and note the domain.

    Args:
        request: what was asked for.
        frame: raw values of N rows.
        features: what to make of them; numbers are bounded by the smallest and largest scaled value in train, all
            others by 0 and 1.
        labels: class numbers (N,).
        class_names: in their order.
    """
    from r2et.tables.declared import checked
    from r2et.tables.encoding import Encoding
    from r2et.tables.labels import class_numbers

    info, columns, y = request.info, checked(frame, features), class_numbers(labels)
    parts = _parts(info.name, y, request.seed, class_names)
    rows = Encoding.declared(features, columns.iloc[parts[0]]).rows(columns, y, dtype=torch.float32)
    assert rows.domain is not None
    train, validation, test = (Split(rows.x[part], rows.y[part]) for part in map(torch.from_numpy, parts))
    return Dataset(
        name=info.name,
        train=train,
        validation=validation,
        test=test,
        feature_names=rows.names,
        class_names=tuple(class_names),
        domain=rows.domain,
        columns=rows.columns,
        k=info.k,
        description=info.description,
        citation=info.citation,
        licence=info.licence,
        kind=info.kind,
    )


def _parts(name: str, y: Tensor, seed: int, class_names: Sequence[str]) -> "tuple[NDArray[np.int64], ...]":
    """Row numbers of train, validation and test; a file that is cut short is an error that counts its classes."""
    counts = y.bincount(minlength=len(class_names)).tolist()
    told = ", ".join(f"{count} of {label!r}" for label, count in zip(class_names, counts, strict=True))
    try:
        parts = split_rows(y.numpy(), seed)
    except ValueError as error:
        raise DataError(f"{name} has too few rows for three splits ({told}): {error}") from error
    if not all(counts):
        raise DataError(f"{name} has a class without rows ({told}): the file may be cut short")
    return parts
