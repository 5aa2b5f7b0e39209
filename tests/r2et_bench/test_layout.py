"""What a table is before it has a format."""

import pytest

from r2et_bench.layout import Section, Table, TableEntry


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        (TableEntry(mean=97.44), "97.4"),
        (TableEntry(mean=0.97444, digits=4), "0.9744"),
        (TableEntry(mean=97.44, std=0.06), "97.4 ± 0.1"),
        (TableEntry(mean=0.0), "0.0"),
        (TableEntry(mean=1.0, failure="died"), "failed"),
        (TableEntry(mean=1.0, text="12 s"), "12 s"),
        (TableEntry(), "-"),
    ],
)
def test_a_value_as_it_is_printed(entry, shown):
    assert entry.own() == shown


def section(*papers):
    rows = tuple(
        (f"method {n}", (TableEntry(mean=1.0, paper=paper), TableEntry(mean=2.0)))
        for n, paper in enumerate(papers)
    )
    return Section("adult", "Adult", ("P@k", "AUC"), rows)


def test_the_paper_has_a_column_where_it_has_a_value():
    headings, cells = section(90.0, None).grid()
    assert headings == ["method", "P@k", "paper", "AUC"]
    assert [line[2] for line in cells] == ["90.0", ""]
    assert section(None, None).grid()[0] == ["method", "P@k", "AUC"]


def test_failures_say_where():
    failed = Section(
        "adult", "Adult", ("P@k",), (("SP", (TableEntry(failure="died"),)), ("R2ET", (TableEntry(mean=1.0),)))
    )
    assert Table("1", "P@k", (), (failed, section(1.0))).failures() == ["Adult, SP, P@k: died"]


def test_the_honest_table_has_no_number():
    assert Table("honest", "The honest table", (), ()).heading == "The honest table"
    assert Table("2", "AUC", (), ()).heading == "Table 2: AUC"
