"""Whole files of text: round trips in any format, in pieces, and as an earlier file was written."""

import gzip
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import r2et
from r2et.tables import Format, read_chunks, read_frame, read_table, recognise

GERMAN = """Kundennummer;Größe;Betrag;Rabatt;Beginn;Kunde seit;PLZ;Straße;zufrieden
1;1,82;1.234,56 €;5 %;01.02.2024;2019-05-01;01067;"Hauptstraße 1
Hinterhaus";Ja
2;1,75;12,50 €;10,5 %;13.02.2024;2020-06-30;99999;Gässchen; nein
3;k.A.;7 €;0;;2021-01-01;80331;Weg;ja
4;1,6;1.000,00-;?;31.12.2023;2022-02-28;80333;;Ja

(4 Zeilen)
"""


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_a_german_export(tmp_path, encoding):
    path = tmp_path / "kunden.csv"
    path.write_bytes(GERMAN.replace("\n", "\r\n").encode(encoding))
    written = recognise(path)
    frame = read_frame(path, written)
    assert (written.separator, written.encoding, written.decimal) == (";", encoding, ",")
    assert frame["Größe"].fillna(0).tolist() == [1.82, 1.75, 0, 1.6]
    assert frame["Betrag"].tolist() == [1234.56, 12.5, 7, -1000]
    assert frame["Rabatt"].fillna(-1).tolist() == [5, 10.5, 0, -1]
    assert frame["Beginn"].iloc[0] == pd.Timestamp("2024-02-01")
    assert frame["Kunde seit"].dtype == frame["Beginn"].dtype == np.dtype("datetime64[us]")
    assert frame["PLZ"].tolist() == ["01067", "99999", "80331", "80333"]
    assert frame["Straße"].iloc[0] == "Hauptstraße 1\r\nHinterhaus"
    assert frame["Straße"].isna().tolist() == [False, False, False, True]
    assert frame["zufrieden"].tolist() == ["Ja", "nein", "Ja", "Ja"]
    assert "(4 Zeilen)" in " ".join(written.said)
    assert Format.from_dict(written.to_dict()) == written


# --- round trips ----------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=8).map(lambda text: f"w{text}w")
COLUMNS = {
    "whole": st.integers(-(10**9), 10**9),
    "number": st.floats(-1e9, 1e9).map(lambda value: round(value, 4)),
    "text": TEXT,
    "truth": st.booleans(),
    "day": st.dates(pd.Timestamp("1950-01-01").date(), pd.Timestamp("2060-01-01").date()),
}


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=2, max_size=6))
    return [
        (f"{kind} {i}", kind, draw(st.lists(st.none() | COLUMNS[kind], min_size=rows, max_size=rows)))
        for i, kind in enumerate(kinds)
    ]


def as_text(kind, value, marks):
    decimal, thousands = marks
    if value is None:
        return ""
    if kind == "number":
        # four digits: three could be thousands, which no file can tell apart
        return f"{value:,.4f}".replace(",", "t").replace(".", decimal).replace("t", thousands)
    if kind == "whole":
        return f"{value:,}".replace(",", thousands) if thousands in ("'", " ") else str(value)
    return value.strftime("%d.%m.%Y") if kind == "day" else str(value)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frames(),
    st.sampled_from([(".", ""), (",", ""), (",", "."), (".", ","), (".", "'"), (",", " ")]),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_any_frame_in_any_format_comes_back(tmp_path, columns, marks, separator, encoding):
    texts = pd.DataFrame(
        {name: [as_text(kind, value, marks) for value in values] for name, kind, values in columns}
    )
    path = tmp_path / "a.csv"
    texts.to_csv(path, index=False, sep=separator, encoding=encoding)
    written = recognise(path)
    frame = read_frame(path, written)
    assert (written.separator, written.encoding) == (separator, encoding)
    assert frame.columns.tolist() == [name for name, _, _ in columns]
    for name, kind, values in columns:
        for seen, value in zip(frame[name].tolist(), values, strict=True):
            if value is None:
                assert pd.isna(seen)
            elif kind == "day":
                assert seen == pd.Timestamp(value)
            else:
                assert seen == (value.strip() if kind == "text" else value)
    back = Format.from_dict(written.to_dict())
    pd.testing.assert_frame_equal(read_frame(path, back), frame)
    parts = list(read_chunks(path, back, 5))
    assert all(part.dtypes.to_dict() == frame.dtypes.to_dict() for part in parts)
    pd.testing.assert_frame_equal(pd.concat(parts), frame)


def test_a_packed_file_in_pieces(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(GERMAN.encode("cp1252")))
    written = recognise(path)
    parts = list(read_chunks(path, written, 3))
    assert [len(part) for part in parts] == [3, 1]
    pd.testing.assert_frame_equal(pd.concat(parts), read_frame(path))
    (some,) = read_chunks(path, written, columns=["Rabatt"])
    assert some.columns.tolist() == ["Rabatt"]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(r2et.errors.DataError, match="cut short"):
        next(read_chunks(path, written))


@pytest.mark.parametrize(
    ("text", "columns", "words"),
    [
        ("age;pay\n30;1,5\n40;much\n", None, "'much' in row 1"),
        ("age;pay\n30;1,5\n40;2.25\n", None, "'2.25' in row 1"),
        ("age;pay\n30;1,5\n40\n", None, "line 3 has 1 value"),
        ("age;pay\n30;1,5\n", ["height"], "no column 'height'"),
        ("age;pay;new\n30;1,5;1\n", ["new"], "does not say"),
        ("a;b\n30;1,5\n", None, "does not say"),
    ],
)
def test_pieces_that_are_not_written_as_before(tmp_path, text, columns, words):
    (tmp_path / "before.csv").write_text("age;pay\n30;1,5\n40;2,5\n")
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(r2et.errors.InputError, match=words):
        list(read_chunks(tmp_path / "a.csv", recognise(tmp_path / "before.csv"), 1, columns))


def test_what_is_not_ascii_may_come_late_in_a_file_in_pieces(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a,b\n" + b"1,x\n" * 400_000 + "2,é\n".encode("cp1252"))
    written = recognise(tmp_path / "a.csv")
    *_, last = read_chunks(tmp_path / "a.csv", written, 100_000)
    assert last["b"].iloc[-1] == "é"


# --- as an earlier file ---------------------------------------------------------------------------------------


@pytest.fixture
def before(tmp_path):
    (tmp_path / "before.csv").write_text(
        "age;pay;day;code;member\n30;1.234,5;13/02/2024;12A;Ja\n40;7,5;01/02/2024;13;nein\n"
    )
    return recognise(tmp_path / "before.csv")


def again(tmp_path, before, text):
    (tmp_path / "now.csv").write_text(text)
    written = recognise(tmp_path / "now.csv", like=before)
    return read_frame(tmp_path / "now.csv", before), " ".join(written.said)


def test_a_short_file_is_read_as_the_long_one(tmp_path, before):
    frame, said = again(tmp_path, before, "age;pay;day;code;member\n50;1.234;03/04/2024;14;JA\n")
    assert frame.iloc[0].tolist() == [50, 1234.0, pd.Timestamp("2024-04-03"), "14", "Ja"]
    assert "anew" not in said
    # the negative control: alone it would be read otherwise
    with pytest.raises(r2et.errors.DataError, match="--dates day="):
        read_frame(tmp_path / "now.csv")


def test_another_separator_is_recognised_anew_and_said(tmp_path, before):
    frame, said = again(tmp_path, before, "age,pay,day,code,member\n50,1.234,03/04/2024,14,ja\n")
    assert frame.iloc[0].tolist() == [50, 1.234, pd.Timestamp("2024-04-03"), "14", "Ja"]
    assert "separated by ',', in the file of the training by ';'" in said


def test_a_column_that_contradicts_is_recognised_anew_and_said(tmp_path, before):
    frame, said = again(
        tmp_path, before, "age;pay;day;code;member\n50;12.25;2024-04-03;14;ja\nold;1.5;2024-04-04;1;ja\n"
    )
    assert frame["pay"].tolist() == [12.25, 1.5]
    assert frame["day"].iloc[0] == pd.Timestamp("2024-04-03")
    assert frame["age"].tolist() == ["50", "old"]
    for name in ("pay", "day", "age"):
        assert f"column {name} is not written as in the file of the training" in said


def test_new_columns_and_missing_ones_do_no_harm(tmp_path, before):
    frame, _ = again(tmp_path, before, "pay;new\n1.234;2,5\n")
    assert frame.iloc[0].tolist() == [1234.0, 2.5]


# --- names, choice of columns -------------------------------------------------------------------------------


def test_an_unnamed_first_column_has_a_name_that_is_free(tmp_path):
    (tmp_path / "a.csv").write_text(",row number,y\n0,5,1\n1,7,2\n")
    assert read_frame(tmp_path / "a.csv").columns.tolist() == ["row number'", "row number", "y"]


def test_what_is_left_out_needs_no_decision(tmp_path):
    (tmp_path / "a.csv").write_text("when,age,y\n03/04/2024,1,0\n05/06/2024,2,1\n")
    with pytest.raises(r2et.errors.DataError, match="--drop when"):
        read_table(tmp_path / "a.csv", "y")
    table = read_table(tmp_path / "a.csv", "y", drop=["when"])
    assert table.frame.columns.tolist() == ["age"]
    assert table.format.names == ("age", "y")
    hints = r2et.tables.Hints(dates={"when": "%d/%m/%Y"})
    table = read_table(tmp_path / "a.csv", "y", hints=hints)
    assert table.frame["when"].iloc[0] == pd.Timestamp("2024-04-03")
    assert table.said == ("dates of the form %d/%m/%Y (column when; else: --dates)",)


# --- extreme files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"x" * 10**7, b"x," * (5 * 10**6), b"a,b\n1," + b"x" * 10**7])
def test_ten_megabytes_in_one_line(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(r2et.errors.DataError, match=r"field larger|values in its first line"):
        read_frame(tmp_path / "a.csv")


def test_one_row_and_one_column(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert read_frame(tmp_path / "a.csv").to_dict("list") == {"a": [1]}


def test_a_hundred_thousand_rows_take_seconds(tmp_path):
    drawn = np.random.default_rng(0)
    numbers = {f"n{i}": np.resize(drawn.normal(size=2000) * 1000, 10**5).round(5) for i in range(25)}
    texts = {f"t{i}": np.resize(drawn.choice(["cook", "nurse"], 2000), 10**5) for i in range(5)}
    path = tmp_path / "a.csv"
    tile = pd.DataFrame({**numbers, **texts}).iloc[:2000].to_csv(index=False, sep=";", decimal=",")
    header, _, body = tile.partition("\n")
    path.write_text(f"{header}\n" + body * 50)
    begin = time.process_time()
    frame = read_frame(path)
    assert time.process_time() - begin < 15, "4 s on one quiet core"
    for name, values in numbers.items():
        np.testing.assert_array_equal(frame[name], values)
