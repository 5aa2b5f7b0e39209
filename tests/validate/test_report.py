"""What a check says, for people and for programs."""

import json

import pytest

from r2et.validate.report import Finding, Report

LONG = "a very long sentence about a layer " * 9


def finding(severity):
    return Finding("dropout", severity, "layer 'drop'", LONG, f"call {LONG}")


@pytest.mark.parametrize(
    ("severities", "ok", "counts"),
    [
        ((), True, "0 errors, 0 warnings, 0 notes"),
        (("note", "warning"), True, "0 errors, 1 warning, 1 note"),
        (("error", "error", "note"), False, "2 errors, 0 warnings, 1 note"),
    ],
)
def test_only_errors_make_a_model_unfit(severities, ok, counts):
    report = Report(tuple(map(finding, severities)))
    assert report.ok is ok
    assert report.summary().splitlines()[0] == counts
    assert report.summary().count("[dropout]") == len(severities)


def test_a_summary_fits_into_80_columns_and_loses_nothing():
    text = Report((finding("error"),)).summary()
    assert max(map(len, text.splitlines())) <= 80
    assert " ".join(text.split()).count(" ".join(LONG.split())) == 2


def test_a_report_becomes_json():
    report = Report((finding("warning"),))
    again = json.loads(json.dumps(report.to_dict()))
    assert again == {"ok": True, "findings": [vars(finding("warning"))]}
