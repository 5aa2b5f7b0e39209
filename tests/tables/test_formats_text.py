"""Encodings, separators and records."""

import io
from pathlib import Path

import pytest

import r2et
from r2et.tables.formats_text import Records, encoding_of, separator_of

PATH = Path("a.csv")


@pytest.mark.parametrize(
    ("encoding", "recognised"),
    [("utf-8", "utf-8"), ("utf-8-sig", "utf-8-sig"), ("utf-16", "utf-16"), ("cp1252", "cp1252")],
)
def test_encodings_of_a_german_text(encoding, recognised):
    assert encoding_of(PATH, "Größe;Straße\n1;„Äpfel“\n".encode(encoding)) == recognised


def test_bytes_that_windows_does_not_know_are_latin_1():
    assert encoding_of(PATH, "caf\xe9\x81;b\n".encode("latin-1")) == "latin-1"


def test_a_remembered_encoding_counts_only_where_the_text_is_not_utf_8():
    assert encoding_of(PATH, "Größe".encode(), "cp1252") == "utf-8"
    assert encoding_of(PATH, "Größe".encode("cp850"), "cp850") == "cp850"


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("inner", [",", ";", "|"])
def test_separators_beside_other_marks_in_quotes(mark, inner):
    text = f'"a{inner} b"{mark}"c"\n1{mark}"x{inner}y{inner}z"\n2{mark}u\n'
    assert separator_of(text) == mark


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("a;b\n1,5;2,5\n1,5;2,5\n", ";"),
        ("a;b;c\n1,5;2,5;3,5\n", ";"),
        ("name, age;pay\nx;1\n", ";"),
        ("sep=|\na,b|c\n1,2|3\n", "|"),
        ("alone\n1\n2\n", ","),
        ("", ","),
    ],
)
def test_separators_that_are_not_the_most_frequent_mark(text, mark):
    assert separator_of(text) == mark


def read(text, separator=","):
    records = Records(PATH, io.StringIO(text, newline=""), separator)
    return records, [record for block in records.blocks(2) for record in block]


def test_line_breaks_in_quotes_belong_to_the_value():
    _, rows = read('a,b\r\n1,"x\r\ny"\r\n"2","say ""no"""\r\n\r\n3,z')
    assert rows == [["1", "x\r\ny"], ["2", 'say "no"'], ["3", "z"]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3\n4,5\n", "line 3 has 1 value, fewer than the 2 names"),
        ('a,b\n"1\n1",2\n3,4,5\n', "line 4 has 3 values, more than the 2 names"),
        ("a,b\n1,2\n(2 rows)\n3,4\n", "line 3 has 1 value, fewer"),
        ("a,b\n1,2\n3\n", "line 3 has 1 value"),
        ('a,b\n1,"2\n', "line 2: unexpected end of data"),
        ('a,b\n1,"2"x\n', "line 2: ',' expected after"),
        ("\n\n", "no line of names"),
        (",,\n1,2,3\n", "no line of names"),
        ("," * 200_000 + "a\n", "200,001 values in its first line"),
    ],
)
def test_lines_that_do_not_fit_are_named(text, words):
    with pytest.raises(r2et.errors.DataError, match=words):
        read(text)


def test_remarks_after_the_table_are_no_rows():
    records, rows = read("a,b\n1,2\n3,4\n\n(2 rows)\nExported by night\n")
    assert len(rows) == 2
    assert records.footers == ["(2 rows)", "Exported by night"]
