"""ABIDE: functional connectomes of 116 brain regions; age group, or autism against control."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from r2et.data.arrays import check_classes, read_npz
from r2et.data.base import Dataset
from r2et.data.catalogue import Info, Request, register
from r2et.data.graphs import graph_dataset
from r2et.data.pairs import PairCounts
from r2et.data.sources import ManualFile
from r2et.errors import DataError
from r2et.tables.files import read_texts

REGIONS = 116
EDGES = REGIONS * (REGIONS - 1) // 2
PAIRS = PairCounts()
# Beside the connectomes: the code of each region of the AAL atlas and its name.
LABELS = "aal_labels.csv"
CONNECTOMES = ManualFile(
    "abide_aal116_corr.npz",
    "It holds corr_triu (N, 6670), the upper triangle of each person's matrix of correlations between 116 AAL "
    "regions, y (1 autism, 0 control), age in years and roi, the code of each region; the page on loading data "
    "makes it from nilearn.datasets.fetch_abide_pcp(derivatives='rois_aal'). Put aal_labels.csv (code,name) "
    "beside it for the names of the regions.",
)


@register(
    Info(
        name="abide",
        description="ABIDE functional connectomes, 116 AAL regions; pairs of people of the same class or not. "
        "age-group: at most 13 against at least 18 years; diagnosis: autism against control",
        citation="Craddock et al. The Neuro Bureau Preprocessing Initiative: ABIDE. 2013",
        licence="non-commercial research",
        rows=PAIRS.train + PAIRS.validation + PAIRS.test,
        features=EDGES,
        classes=2,
        files=(CONNECTOMES,),
        targets=("age-group", "diagnosis"),
        options={"pairs": True},
        k=50,
        inputs=2,
        kind="graphs",
    )
)
def abide(request: Request) -> Dataset:
    """People split 70:15:15; then 4,000 pairs per epoch, or with `pairs=False` single graphs.

    Nobody from 13 to 18 years (both excluded) is in the age groups. An edge lies between -1 and 1.
    """
    path = request.paths[0]
    arrays = read_npz(path, ("corr_triu", "y", "age"), optional=("roi",))
    edges = check_correlations(path, arrays["corr_triu"])
    if request.target == "diagnosis":
        rows = np.arange(len(edges))
        y = check_classes(path, "y", arrays["y"], len(edges), 2)
        class_names = ("control", "autism")
    else:
        age = arrays["age"]
        if age.dtype.kind not in "fiu" or age.shape != (len(edges),):
            raise DataError(f"{path}: age must be {len(edges)} numbers, got {age.dtype} of shape {age.shape}")
        rows = np.flatnonzero((age <= 13) | (age >= 18))
        y = (age[rows] >= 18).astype(np.int64)
        class_names = ("at most 13 years", "at least 18 years")
    if len(np.unique(y)) < 2:
        raise DataError(f"{path} has nobody in one of the classes {class_names} of target {request.target!r}")
    return graph_dataset(
        request.info,
        edges[rows],
        y,
        class_names,
        region_names(path, arrays.get("roi")),
        seed=request.seed,
        pairs=PAIRS if request.options["pairs"] else None,
        limits=(-1.0, 1.0),
    )


def check_correlations(path: Path, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Upper triangles (N, 6670) of correlations, as float64."""
    if edges.dtype.kind != "f" or edges.ndim != 2 or edges.shape[1] != EDGES:
        raise DataError(
            f"{path}: corr_triu must be floating-point numbers of shape (N, {EDGES}), got {edges.dtype} of shape "
            f"{edges.shape}"
        )
    values = edges.astype(np.float64)
    # NaN compares false
    wrong = np.argwhere(~(np.abs(values) <= 1))
    if len(wrong):
        row, edge = wrong[0]
        raise DataError(f"{path}: corr_triu[{row}, {edge}] is {values[row, edge]}, which is not a correlation")
    return values


def region_names(path: Path, roi: "NDArray[np.str_] | None") -> tuple[str, ...]:
    """The names of the atlas where its labels lie beside the connectomes, else the codes."""
    labels = path.with_name(LABELS)
    names: dict[str, str] = {}
    if labels.is_file():
        frame = read_texts(labels, ("code", "name"), header=False, comment="#")
        names = dict(zip(frame["code"], frame["name"], strict=True))
    if roi is None:
        codes = list(names) or [f"region {number}" for number in range(REGIONS)]
    else:
        codes = [str(code) for code in roi.ravel()]
    regions = tuple(names.get(code, code) for code in codes)
    if len(regions) != REGIONS or len(set(regions)) != REGIONS:
        raise DataError(
            f"{path} and {LABELS} beside it name {len(set(regions))} different regions, expected {REGIONS}"
        )
    return regions
