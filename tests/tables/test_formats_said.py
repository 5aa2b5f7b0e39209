"""Sentences about what was recognised."""

import pytest

from r2et.tables import recognise


def said(tmp_path, text, **hints):
    (tmp_path / "a.csv").write_text(text, newline="")
    return recognise(tmp_path / "a.csv", **hints).said


def test_a_plain_file_needs_no_words(tmp_path):
    text = "age,pay,job,member,bought\n30,1.5,cook,True,yes\n40,2.25,nurse,False,no\n"
    assert said(tmp_path, text) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;b\n1;2\n", ["separated by semicolons", "--sep"]),
        ("a;b\n1,5;2\n", ["decimal comma", "column a", "--decimal"]),
        ("a;b\n1.234,5;2\n", ["decimal comma and dots between thousands", "1.234,56 is 1234.56"]),
        ("a;b\n1,234;2\n", ["1,234 could be of thousands or decimal", "--thousands ','"]),
        ("a,b\n5 %,$ 7\n", ["percent sign", "column a", "currency sign, 12 $ is 12 (column b)"]),
        ("a,b\n31.12.2024,2\n", ["dates of the form %d.%m.%Y (column a", "--dates"]),
        ("a,b\n?,2\n,3\n4,5\n", ["column a 2 (empty, '?')", "--missing"]),
        ("a,b\n,2\n,3\n", ["no value in column a"]),
        ("a,b\nx ,2\ny,3\n", ["blanks around values", "a (1 row)"]),
        ("a,b\nYes,2\nyes,3\nYes,3\nno,1\n", ["'yes' became 'Yes'"]),
        ("a,b\nCook,2\ncook,3\n", ["differ only in case", "'Cook' and 'cook'"]),
        ("a,b\nnone,2\nattached,3\n", ["'none' is a value of its own", "--missing none"]),
        ("a,b\n01067,2\n99999,3\n", ["01067 begins with zeros", "code"]),
        (",b\n1,2\n2,3\n", ["no name", "'row number'"]),
        (",b\nx,2\ny,3\n", ["no name", "'row name'"]),
        ("a,b,\n1,2,\n3,4,\n", ["without name and values left out"]),
        ("a,b\n1,2\n(1 rows)\n", ["after the table left out: '(1 rows)'"]),
        ("a,b\n" + "1,2\n" * 40 + "about,2\n", ["97.6 % of its values are numbers, but row 40", "'about'"]),
    ],
)
def test_what_is_not_plain_is_said(tmp_path, text, words):
    told = "\n".join(said(tmp_path, text))
    for word in words:
        assert word in told


def test_three_hundred_columns_are_told_in_few_sentences(tmp_path):
    names = ";".join(f"c{i}" for i in range(300))
    row = ";".join(["1,5"] * 299 + [""])
    told = said(tmp_path, f"{names}\n{row}\n{row}\n")
    assert len(told) <= 4
    assert sum(map(len, told)) < 800
    assert "and 294 more" in told[1]
