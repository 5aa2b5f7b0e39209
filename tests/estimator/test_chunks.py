"""Chunks of a file, put together, are the file."""

import gzip

import pandas as pd
import pytest

from r2et.errors import DataError
from r2et.estimator.chunks import count_rows, read_chunks

FRAME = pd.DataFrame({"code": ["01", "02", "x", "04", "05"], "pay": [1.5, 2, 3, 4, 5]})


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.parquet"])
@pytest.mark.parametrize("rows", [1, 2, 5, 9])
def test_chunks_are_numbered_through(tmp_path, name, rows):
    path = tmp_path / name
    if name.endswith("parquet"):
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False, sep="\t" if name == "a.tsv" else ";")
    parts = list(read_chunks(path, ["code"], rows=rows))
    assert [len(part) for part in parts[:-1]] == [rows] * (len(parts) - 1)
    pd.testing.assert_frame_equal(pd.concat(parts), FRAME, check_dtype=False, check_index_type=False)
    assert count_rows(path) == 5


@pytest.mark.parametrize("content", [b"", b"a,b\n", b"a,b\n1,2\n\xff\xfe,3\n"])
def test_files_that_are_no_table(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.csv"):
        list(read_chunks(tmp_path / "a.csv"))


def test_a_damaged_archive(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n" + b"1\n" * 9999)[:-20])
    with pytest.raises(DataError, match="cannot be read as a table"):
        list(read_chunks(tmp_path / "a.csv.gz"))
