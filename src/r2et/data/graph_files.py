"""People's own graphs: adjacency matrices in an array, in one file, or one file each."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from r2et.data.base import Dataset
from r2et.data.catalogue import Info
from r2et.data.folders import (
    Groups,
    classes_by_folder,
    column_of,
    existing_folder,
    files_in,
    groups_of,
    number_classes,
    values_of,
)
from r2et.data.graphs import graph_dataset
from r2et.data.pairs import PairCounts
from r2et.errors import DataError, InputError
from r2et.files.reading import regular_file
from r2et.files.unpacking import Array, check_mat, read_arrays, unreadable
from r2et.numerics.values import check_count, check_flag, check_names, check_seed, check_text, quoted
from r2et.tables.splits import FRACTIONS, check_three_fractions

SUFFIXES = (".npy", ".npz", ".mat", ".csv")


def load_graphs(
    source: str | Path | ArrayLike | Tensor,
    labels: str | Path | Mapping[str, object] | Sequence[object] | Array | Tensor | None = None,
    *,
    key: str | None = None,
    region_names: Sequence[str] | None = None,
    symmetrise: bool = False,
    pairs: PairCounts | bool = True,
    fractions: Sequence[float] = FRACTIONS,
    groups: Groups | Sequence[object] | None = None,
    seed: int = 0,
    k: int = 50,
    name: str = "graphs",
) -> Dataset:
    """A data set from undirected weighted graphs on the same R nodes; the diagonal is not used.

    Each graph becomes the vector of its edge weights, the upper triangle row by row, standardised on train.

    Args:
        source: an array (M, R, R); a .npy, .npz or .mat file with such an array (.mat also (R, R, M) or a cell of
            matrices); or a folder with one matrix per file (.npy, .npz, .mat, or .csv without a header).
        labels: the class of each graph. For an array or a file: M values; for a .npz or .mat file also the name of
            a variable in it. For a folder: a CSV file with the columns `file` and `label`, a dict from file name
            to class, or None if each class has a sub-folder of its own.
        key: the variable that holds the matrices, in files with several.
        region_names: of the R nodes.
        symmetrise: replace each matrix by the mean of itself and its transpose; without it, one that is not
            symmetric is refused.
        pairs: how many pairs to make; True: 4,000 per epoch, 300, 600 (App. B.1). False: single graphs.
        fractions: of the graphs in train, validation and test.
        groups: what must not be torn apart by the split, such as the graphs of one person: M values for an array
            or a file; a function of the path or a CSV file with the columns `file` and `group` for a folder.
        seed: of the split and the pairs.
        k: how many salient edges to look at.
        name: of the data set.

    Returns:
        Splits with x (N, 2, n) for pairs or (N, n), n = R (R - 1) / 2, float32, and y (N,) int64.

    >>> matrices = np.random.default_rng(0).normal(size=(60, 6, 6))
    >>> graphs = load_graphs(matrices, [0, 1] * 30, symmetrise=True, pairs=PairCounts(40, 10, 20), k=3)
    >>> graphs.train.x.shape, graphs.class_names, graphs.feature_names[0]
    (torch.Size([40, 2, 15]), ('different', 'same'), 'region 0 - region 1')
    """
    check_three_fractions(fractions)
    check_seed(seed)
    check_count("k", k)
    check_text("name", name)
    check_flag("symmetrise", symmetrise)
    if key is not None:
        check_text("key", key)
    if not isinstance(pairs, bool | PairCounts):
        raise InputError(f"pairs must be True, False or PairCounts(train, validation, test), got {pairs!r}")
    if isinstance(source, str | Path) and os.path.isdir(Path(source).expanduser()):
        matrices, classes, people, titles = _from_folder(Path(source), labels, groups, key)
    else:
        matrices, classes, people, titles = _from_array(source, labels, groups, key)
    edges = upper_triangles(matrices, titles, symmetrise)
    size = len(matrices[0])
    if region_names is None:
        region_names = [f"region {i}" for i in range(size)]
    regions = check_names("region_names", region_names, size)
    numbers, class_names = number_classes(classes)
    info = Info(
        name=name,
        description=f"graphs of {size} regions",
        citation="",
        licence="",
        rows=len(edges),
        features=edges.shape[1],
        classes=len(class_names),
        k=k,
    )
    counts = (PairCounts() if pairs else None) if isinstance(pairs, bool) else pairs
    y = np.array(numbers, dtype=np.int64)
    return graph_dataset(
        info, edges, y, class_names, regions, seed=seed, pairs=counts, groups=people, fractions=fractions
    )


def upper_triangles(
    matrices: Sequence[Array] | Array, titles: Sequence[str], symmetrise: bool
) -> NDArray[np.float64]:
    """The upper triangle (M, n) of each of M matrices, which must be square, of one size, finite and symmetric."""
    for title, matrix in zip(titles, matrices, strict=True):
        if matrix.dtype.kind not in "fiub":
            raise DataError(f"{title} holds {matrix.dtype}, not numbers")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise DataError(f"{title} has shape {matrix.shape}; an adjacency matrix is square")
        if matrix.shape != matrices[0].shape:
            raise DataError(f"{title} is {matrix.shape}, but {titles[0]} is {matrices[0].shape}: sizes must agree")
    stacked = np.stack([np.asarray(matrix, dtype=np.float64) for matrix in matrices])
    first, second = np.triu_indices(stacked.shape[1], k=1)
    upper, lower = stacked[:, first, second], stacked[:, second, first]
    wrong = np.argwhere(~(np.isfinite(upper) & np.isfinite(lower)))
    if len(wrong):
        graph, edge = wrong[0]
        raise DataError(
            f"{titles[graph]} has a value that is NaN or infinite between nodes {first[edge]} and {second[edge]}: "
            "leave this graph out, or fill the gap"
        )
    if symmetrise:
        return np.asarray((upper + lower) / 2)
    # rounding of a matrix that was computed or written as text
    wrong = np.argwhere(np.abs(upper - lower) > 1e-5 * np.maximum(1.0, np.abs(upper)))
    if len(wrong):
        graph, edge = wrong[0]
        raise DataError(
            f"{titles[graph]} is not symmetric: {upper[graph, edge]:g} from node {first[edge]} to {second[edge]}, "
            f"{lower[graph, edge]:g} back; pass symmetrise=True to take the mean"
        )
    return np.asarray(upper)


# matrices, classes, groups and, for error messages, a title each
Parts = tuple[list[Array], Sequence[object], list[str] | None, list[str]]


def _from_folder(folder: Path, labels: Any, groups: Any, key: str | None) -> Parts:
    root = existing_folder(folder)
    tables = [Path(table).expanduser() for table in (labels, groups) if isinstance(table, str | Path)]
    files = files_in(root, SUFFIXES, ignore=tables)
    if labels is None:
        classes = classes_by_folder(root, files)
    elif isinstance(labels, str | Path):
        classes = column_of(labels, "label", files)
    elif isinstance(labels, Mapping):
        classes = values_of({str(file): str(label) for file, label in labels.items()}, files, "labels")
    else:
        raise InputError(
            f"the labels of a folder are a CSV file, a dict from file name to class or None, got {labels!r:.80}"
        )
    matrices = [_variable(root / file, key) for file in files]
    return matrices, classes, groups_of(groups, files), [str(root / file) for file in files]


def _from_array(source: Any, labels: Any, groups: Any, key: str | None) -> Parts:
    title, own_labels = "graphs", labels
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        regular_file(path)
        if path.suffix.lower() not in SUFFIXES[:3]:
            raise DataError(
                f"{path} is not one of {', '.join(SUFFIXES[:3])}; .csv files go into a folder, one a graph"
            )
        title = str(path)
        array = _variable(path, key, besides=labels if isinstance(labels, str) else None)
        if isinstance(labels, str):
            own_labels = _variable(path, labels).ravel()
    else:
        try:
            array = np.asarray(source.detach().cpu() if isinstance(source, Tensor) else source)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"the graphs cannot be read as an array (M, R, R): {error}") from error
    if array.ndim == 0 or (array.dtype != object and array.ndim != 3):
        raise DataError(f"{title} has shape {array.shape}; an array of graphs is (M, R, R)")
    classes = _values("labels", own_labels, len(array))
    people = None if groups is None else [str(group) for group in _values("groups", groups, len(array))]
    # a cell of matrices arrives as an array of objects
    return [np.asarray(m) for m in array], classes, people, [f"{title}[{i}]" for i in range(len(array))]


def _values(name: str, listed: Any, rows: int) -> list[object]:
    wrong = InputError(f"{name} must be one value a graph, got {quoted(listed)}")
    if isinstance(listed, str | Path | Mapping) or callable(listed) or not isinstance(listed, Iterable):
        raise wrong
    try:
        values = listed.tolist() if isinstance(listed, Tensor | np.ndarray) else list(listed)
    except (TypeError, RuntimeError) as error:  # a tensor that is not a plain array
        raise wrong from error
    if not isinstance(values, list):
        raise wrong
    if len(values) != rows:
        raise InputError(f"{len(values)} {name} for {rows} graphs")
    if any(isinstance(value, float) and not value.is_integer() for value in values):
        raise InputError(f"{name} must be whole numbers or texts, got {values[:5]}")
    return [int(value) if isinstance(value, float) else value for value in values]


def _variable(path: Path, key: str | None, besides: str | None = None) -> Array:
    """One array of a file: the named one, or the only one besides the labels."""
    try:
        variables = _read(regular_file(path))
    except DataError:
        raise
    # decoders of damaged files raise nearly anything
    except Exception as error:
        raise unreadable(path, error) from error
    if key is None or path.suffix.lower() in (".npy", ".csv"):
        left = [name for name in variables if name != besides]
        if len(left) != 1:
            raise DataError(f"{path} holds {', '.join(map(repr, left)) or 'nothing'}: say which one with key=")
        return variables[left[0]]
    if key not in variables:
        raise DataError(f"{path} has no variable {key!r}; it has {', '.join(map(repr, variables)) or 'none'}")
    return variables[key]


def _read(path: Path) -> dict[str, Array]:
    suffix = path.suffix.lower()
    if suffix == ".csv":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty file; its shape is refused later
            return {"": np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")}
    if suffix == ".mat":
        return _read_mat(path)
    return read_arrays(path)


def _read_mat(path: Path) -> dict[str, Array]:
    from scipy.io import loadmat

    check_mat(path)
    try:
        content = loadmat(path, simplify_cells=True)
    except NotImplementedError as error:
        raise ValueError("MATLAB's v7.3 format is not supported, save it with save(..., '-v7')") from error
    variables = {}
    for name, value in content.items():
        if not name.startswith("__"):
            array = _objects(value) if isinstance(value, list) else np.asarray(value)
            # MATLAB counts the graphs along the last axis
            if array.ndim == 3 and array.shape[0] == array.shape[1] != array.shape[2]:
                array = np.moveaxis(array, -1, 0)
            variables[name] = array
    return variables


def _objects(values: Sequence[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
