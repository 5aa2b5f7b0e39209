"""A file of reasons is written chunk by chunk; what is in memory does not grow with it."""

import tracemalloc

import pandas as pd
import pytest

from r2et import StableClassifier
from r2et.estimator import reasons_file
from r2et.estimator.reasons_file import write_reasons
from r2et.tables import files
from r2et.tables.files import count_rows

from .frames import mixed


@pytest.fixture(scope="module")
def fitted() -> StableClassifier:
    options = {"k": 2, "settings": {}, "epochs": 2, "network": "additive", "random_state": 0}
    return StableClassifier(**options).fit(*mixed())


def peak(fitted: StableClassifier, folder, rows: int) -> int:
    frame = mixed(500)[0]
    pd.concat([frame] * (rows // 500)).to_csv(folder / "new.csv", index=False)
    tracemalloc.start()
    try:
        summary = write_reasons(fitted, folder / "new.csv", folder / "reasons.csv", 2, proven=False)
        assert summary.rows == rows
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_by_the_chunk(fitted, tmp_path, monkeypatch):
    assert reasons_file.ROWS_AT_ONCE <= 10_000
    monkeypatch.setattr(reasons_file, "ROWS_OF_A_CHUNK", 500)
    monkeypatch.setattr(files, "HEAD", 10_000)
    small, large = (peak(fitted, tmp_path, rows) for rows in (1000, 5000))
    assert large < 1.3 * small


def test_progress_is_told_in_rows(fitted, tmp_path):
    mixed(90)[0].to_csv(tmp_path / "new.csv", index=False)
    told = []
    summary = write_reasons(fitted, tmp_path / "new.csv", tmp_path / "r.csv", advance=told.append)
    assert sum(told) == summary.rows == 90
    assert summary.method == "additive"
    table = pd.read_csv(tmp_path / "r.csv")
    assert summary.proven == int((table.groupby("row")["holds_within"].first() > 0).sum()) > 0
    assert summary.reasons == len(table)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.parquet"])
def test_rows_are_counted(tmp_path, name):
    frame = mixed(40)[0]
    if name.endswith("parquet"):
        frame.to_parquet(tmp_path / name)
    else:
        frame.to_csv(tmp_path / name, index=False)
    assert count_rows(tmp_path / name) == 40


def test_a_german_export_says_the_same(fitted, tmp_path):
    frame = mixed(60)[0]
    frame.to_csv(tmp_path / "plain.csv", index=False)
    frame.to_csv(tmp_path / "german.csv", index=False, sep=";", decimal=",")
    for name in ("plain", "german"):
        write_reasons(fitted, tmp_path / f"{name}.csv", tmp_path / f"{name}-reasons.csv")
    texts = [(tmp_path / f"{name}-reasons.csv").read_text() for name in ("plain", "german")]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", ["number", "object"])
def test_a_value_that_is_missing_for_the_first_time_costs_one_row(fitted, tmp_path, kind):
    """In a column of which every row of the training had a value."""
    frame = mixed(60)[0].reset_index(drop=True)
    (column, *_) = frame.select_dtypes("number" if kind == "number" else ["object", "str"]).columns
    frame[column] = frame[column].astype(object)
    frame.loc[[7, 11], column] = None
    frame.to_csv(tmp_path / "new.csv", index=False)
    summary = write_reasons(fitted, tmp_path / "new.csv", tmp_path / "r.csv")
    assert (summary.rows, summary.not_explained, summary.first_not_explained) == (60, 2, [7, 11])
    rows = pd.read_csv(tmp_path / "r.csv")["row"]
    assert not set(rows) & {7, 11}
    assert rows.max() == 59
