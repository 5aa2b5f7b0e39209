"""People's own files as frames."""

import gzip
import sys

import pandas as pd
import pytest

import r2et
from r2et.tables import files, read_frame, recognise
from r2et.tables.files import is_table

FRAME = pd.DataFrame({"age": [30, 40, 50], "job": ["cook", "nurse", "cook"], "bought": ["yes", "no", "yes"]})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.csv", lambda path: FRAME.to_csv(path, index=False)),
        ("semicolons.csv", lambda path: FRAME.to_csv(path, index=False, sep=";")),
        ("tabs.tsv", lambda path: FRAME.to_csv(path, index=False, sep="\t")),
        ("packed.csv.gz", lambda path: FRAME.to_csv(path, index=False)),
        ("a.parquet", lambda path: FRAME.to_parquet(path)),
        ("indexed.parquet", lambda path: FRAME.set_index(pd.Index([7, 8, 9])).to_parquet(path)),
    ],
)
def test_every_format_gives_the_same_frame(tmp_path, name, write):
    write(tmp_path / name)
    found = read_frame(tmp_path / name)
    assert found.to_dict("list") == FRAME.to_dict("list")
    assert found.index.tolist() == [0, 1, 2]


def test_a_name_with_a_comma_in_quotes(tmp_path):
    (tmp_path / "a.csv").write_text('"age; years, whole","b"\n1,2\n')
    assert read_frame(tmp_path / "a.csv").columns.tolist() == ["age; years, whole", "b"]


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(pd, "read_parquet", _no_engine)
    with pytest.raises(r2et.errors.DataError, match=r"pip install 'r2et\[parquet\]'"):
        read_frame(tmp_path / "a.parquet")


def _no_engine(path):
    raise ImportError("Unable to find a usable engine")


BAD = {
    "missing": (None, "there is no file"),
    "folder": ("folder", "is a folder"),
    "empty": (b"", "cannot be read as a table"),
    "header only": (b"a,b\n", "has no rows"),
    "ragged": (b"a,b\n1,2\n1,2,3\n", "cannot be read as a table"),
    "binary": (bytes(range(200, 256)) * 9, "cannot be read as a table"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_no_tables(tmp_path, name):
    content, words = BAD[name]
    path = tmp_path / "a.csv"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(r2et.errors.DataError, match=words) as caught:
        read_frame(path)
    assert str(path) in str(caught.value)


def test_a_broken_archive(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n")[:-12])
    with pytest.raises(r2et.errors.DataError):
        read_frame(tmp_path / "a.csv.gz")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(r2et.errors.DataError, match="cannot be read"):
        read_frame(tmp_path / "a.parquet")
    (tmp_path / "a.xlsx").write_bytes(b"")
    with pytest.raises(r2et.errors.DataError, match="neither a CSV nor a Parquet file"):
        read_frame(tmp_path / "a.xlsx")


def test_which_texts_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("")
    assert all(map(is_table, ["a.csv", "A.CSV", "b.parquet", "folder/adult", "plain"]))
    assert not any(map(is_table, ["adult", "breast-cancer"]))


# --- files of any size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.parquet"])
@pytest.mark.parametrize("head", [40, 2**20])
def test_what_the_first_rows_say_is_what_all_say(tmp_path, monkeypatch, name, head):
    monkeypatch.setattr(files, "HEAD", head)
    frame = pd.concat([FRAME] * 20, ignore_index=True)
    if name.endswith("parquet"):
        frame.to_parquet(tmp_path / name)
    else:
        frame.to_csv(tmp_path / name, index=False, sep="\t" if "tsv" in name else ";")
    assert files.count_rows(tmp_path / name) == 60
    chosen = []
    written = files.recognise_first(tmp_path / name, choose=lambda names: chosen.extend(names) or names)
    assert chosen == FRAME.columns.tolist()
    assert written == recognise(tmp_path / name)
    parts = list(files.read_chunks(tmp_path / name, written, rows=7, columns=chosen))
    assert [len(part) for part in parts] == [7] * 8 + [4]
    pd.testing.assert_frame_equal(pd.concat(parts), frame, check_dtype=False, check_index_type=False)
    cut = head == 40 and not name.endswith("parquet")
    assert any("first rows" in note for note in written.said) == cut


@pytest.mark.parametrize("head", range(15, 60))
def test_the_first_rows_end_with_a_row_wherever_they_are_cut(tmp_path, monkeypatch, head):
    monkeypatch.setattr(files, "HEAD", head)
    text = 'age;note\n30;"two\nlines; ""quoted"""\n40;é\n50;"a\n\nb"\n'
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    written = files.recognise_first(tmp_path / "a.csv")
    (frame,) = files.read_chunks(tmp_path / "a.csv", written)
    assert frame["age"].tolist() == [30, 40, 50]
    assert frame["note"].tolist() == ['two\nlines; "quoted"', "é", "a\n\nb"]


def test_the_first_rows_of_two_bytes_a_character(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HEAD", 21)
    (tmp_path / "a.csv").write_bytes("age,note\n30,a\n40,b\n".encode("utf-16"))
    written = files.recognise_first(tmp_path / "a.csv")
    assert [part["note"].tolist() for part in files.read_chunks(tmp_path / "a.csv", written)] == [["a", "b"]]
