"""The report of a check, as it is read."""

from r2et.tables.findings import Finding, TableReport

COLUMNS = [f"column_{i}" for i in range(40)]
LEFT_OUT = Finding(
    "constant", "note", tuple(COLUMNS), ("'x' in 9 of 9 rows",) * 40, "left out", "to keep: --keep a"
)
LEAK = Finding("leak", "warning", ("tells",), ("predicts 'y' alone",), "kept. Is it known before?", "--drop tells")
REPORT = TableReport(
    name="people.csv",
    rows=9,
    target="y",
    classes={"yes": 6, "no": 3},
    kinds={**dict.fromkeys(COLUMNS, "category (1 values)"), "tells": "number", "age": "whole number"},
    findings=(LEAK, LEFT_OUT),
    dropped=dict.fromkeys(COLUMNS, "constant"),
)


def test_lines_fit_into_eighty_columns():
    lines = str(REPORT).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "people.csv: 9 rows, 42 columns, target 'y'"
    assert lines[1] == "  classes: yes 6 (66.7 %), no 3 (33.3 %)"
    assert lines[-2:] == ["Used (2):", "  numbers: tells, age"]


def test_of_many_columns_a_few_are_shown():
    text = str(REPORT)
    assert "  column_7: 'x' in 9 of 9 rows" in text
    assert "column_8: " not in text
    assert "and 32 more: column_8, column_9" in text
    assert len(REPORT.to_dict()["findings"][1]["seen"]) == 40


def test_what_is_left():
    assert REPORT.kept == ("tells", "age")
    assert REPORT.usable
    assert REPORT.at_level("warning") == (LEAK,)
    assert not REPORT.at_level("error")


def test_a_training_prints_what_is_left_out_and_what_is_a_warning():
    (_, left_out), (level, leak) = REPORT.brief()
    assert left_out.startswith("left out: column_0 (constant), ")
    assert "and 34 more" in left_out
    assert level == "warning"
    assert leak == "gives the target away: 'tells' predicts 'y' alone. Kept. Is it known before?; --drop tells"
