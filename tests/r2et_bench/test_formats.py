"""One table in four formats."""

import csv
import io
from html.parser import HTMLParser

import pytest

from r2et.errors import InputError
from r2et_bench.formats import FORMATS, render
from r2et_bench.layout import Section, Table, TableEntry

AWKWARD = "50% of <A & B>_1 | ~^{}\\"
TABLE = Table(
    "1",
    "P@k",
    ("A **note**.",),
    (
        Section(
            "adult",
            "Adult",
            ("P@k", "AUC"),
            (
                (
                    AWKWARD,
                    (TableEntry(mean=92.14, std=0.26, seeds=3, paper=90.0, best=True, dagger=True), TableEntry()),
                ),
                ("SP", (TableEntry(failure="MemoryError: <none>"), TableEntry(mean=0.5, digits=4))),
            ),
        ),
    ),
)


class Words(HTMLParser):
    """The text of a page."""

    def __init__(self):
        super().__init__()
        self.words, self.tags = [], []

    def handle_data(self, data):
        self.words.append(data.strip())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


def test_markdown_keeps_its_columns():
    lines = [line for line in render(TABLE, "markdown").splitlines() if line.startswith("|")]
    # a bar inside a cell would begin another
    assert {line.replace("\\|", "").count("|") for line in lines} == {5}
    assert "**92.1 ± 0.3†** | 90.0" in lines[2]
    assert lines[3] == "| SP | failed |  | 0.5000 |"


def test_html_shows_the_text_as_it_is():
    page = Words()
    page.feed(render(TABLE, "html"))
    assert AWKWARD in page.words
    assert "92.1 ± 0.3†" in page.words
    assert "Adult, SP, P@k: MemoryError: <none>" in page.words
    assert page.tags.count("strong") == 1
    assert not {"a", "none", "script"} & set(page.tags)


def test_csv_has_one_line_for_each_value():
    first, empty, failed, last = csv.DictReader(io.StringIO(render(TABLE, "csv")))
    assert (first["method"], first["mean"], first["seeds"], first["best"]) == (AWKWARD, "92.14", "3", "True")
    assert empty["mean"] == ""
    assert failed["failure"] == "MemoryError: <none>"
    assert (last["column"], last["mean"]) == ("AUC", "0.5")


def test_latex_escapes_what_is_special():
    text = render(TABLE, "latex")
    assert r"50\% of <A \& B>\_1 | \textasciitilde{}\^{}\{\}\textbackslash{}" in text
    assert r"\textbf{92.1 $\pm$ 0.3$^\dagger$}" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1


def test_an_unknown_format_is_refused():
    assert set(FORMATS) == {"markdown", "latex", "csv", "html"}
    with pytest.raises(InputError, match="unknown format 'htm': did you mean 'html'"):
        render(TABLE, "htm")
