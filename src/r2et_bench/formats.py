"""A table as Markdown, LaTeX, CSV or HTML, from one source."""

from collections.abc import Callable

from r2et.numerics.values import check_choice
from r2et_bench.layout import Section, Table, TableEntry


def render(table: Table, form: str) -> str:
    """A table in one of the formats of `FORMATS`.

    >>> section = Section("adult", "Adult", ("P@k",), (("R2ET", (TableEntry(mean=92.1, paper=90.0, best=True),)),))
    >>> print(render(Table("1", "P@k", ("A note.",), (section,)), "markdown"))
    ## Table 1: P@k
    <BLANKLINE>
    A note.
    <BLANKLINE>
    ### Adult
    <BLANKLINE>
    | method | P@k | paper |
    |---|---|---|
    | R2ET | **92.1** | 90.0 |
    <BLANKLINE>
    """
    check_choice("format", form, FORMATS)
    return FORMATS[form](table)


def _markdown(table: Table) -> str:
    lines = [f"## {table.heading}", ""]
    for note in table.notes:
        lines += [note, ""]
    for section in table.sections:
        lines += markdown_section(section)
    if table.failures():
        lines += ["Failed:", "", *(f"- {failure}" for failure in table.failures()), ""]
    return "\n".join(lines)


def markdown_section(section: Section, level: int = 3) -> list[str]:
    """The lines of one data set's part of a table."""
    headings, cells = section.grid()
    lines = [
        f"{'#' * level} {section.title}",
        "",
        f"| {' | '.join(headings)} |",
        "|---" * len(headings) + "|",
    ]
    for line in cells:
        lines.append(f"| {' | '.join(_plain(cell, '**', '**').replace('|', chr(92) + '|') for cell in line)} |")
    lines.append("")
    for note in section.notes:
        lines += [note, ""]
    return lines


def _plain(cell: TableEntry | str, before: str = "", after: str = "") -> str:
    if isinstance(cell, str):
        return cell
    return f"{before}{cell.own()}{after}" if cell.best else cell.own()


_LATEX = {"\\": r"\textbackslash{}", "%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#", "$": r"\$", "±": r"$\pm$"}
_LATEX |= {"†": r"$^\dagger$", "✗": r"$\times$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\^{}"}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex_cell(cell: TableEntry | str) -> str:
    text = _escape_latex(_plain(cell))
    return f"\\textbf{{{text}}}" if isinstance(cell, TableEntry) and cell.best else text


def _latex(table: Table) -> str:
    import pandas as pd

    blocks = []
    for section in table.sections:
        headings, cells = section.grid()
        frame = pd.DataFrame([[_latex_cell(cell) for cell in line] for line in cells])
        frame.columns = pd.Index([_escape_latex(heading) for heading in headings])
        blocks.append(
            frame.style.hide(axis="index").to_latex(
                column_format="l" + "r" * (len(headings) - 1),
                hrules=True,
                position_float="centering",
                caption=_escape_latex(f"{table.heading}. {section.title}."),
            )
        )
    return "\n".join(blocks)


def _csv(table: Table) -> str:
    """One line per value: what a spreadsheet or a script wants."""
    import pandas as pd

    lines = [
        {
            "table": table.number,
            "data": section.data,
            "method": title,
            "column": column,
            "significant": entry.dagger,
            **{
                name: getattr(entry, name) for name in ("mean", "std", "seeds", "paper", "best", "text", "failure")
            },
        }
        for section in table.sections
        for title, entries in section.rows
        for column, entry in zip(section.columns, entries, strict=True)
    ]
    columns = ["table", "data", "method", "column", "mean", "std", "seeds"]
    columns += ["paper", "best", "significant", "text", "failure"]
    # of objects, because a column of numbers with holes would turn whole numbers into fractions
    return pd.DataFrame(lines, columns=columns, dtype=object).to_csv(index=False, lineterminator="\n")


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ table.heading }}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.paper { opacity: .65; }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e6e6e6; } }
</style></head><body><main>
<h1>{{ table.heading }}</h1>
{% for note in table.notes %}
<p>{{ note.replace("**", "") }}</p>
{% endfor %}
{% for section in table.sections %}
{% set headings, lines = section.grid() %}
<h2>{{ section.title }}</h2>
<div class="wide" tabindex="0"><table><thead><tr>
{% for heading in headings %}
<th scope="col">{{ heading }}</th>
{% endfor %}
</tr></thead><tbody>
{% for line in lines %}
<tr>
{% for cell in line %}
{% set text = plain(cell) %}
{% set shown %}{% if cell.best %}<strong>{{ text }}</strong>{% else %}{{ text }}{% endif %}{% endset %}
{% if loop.first %}
<th scope="row">{{ shown }}</th>
{% else %}
<td{% if headings[loop.index0] == "paper" %} class="paper"{% endif %}>{{ shown }}</td>
{% endif %}
{% endfor %}
</tr>
{% endfor %}
</tbody></table></div>
{% for note in section.notes %}
<p>{{ note }}</p>
{% endfor %}
{% endfor %}
{% if table.failures() %}
<h2>Failed</h2><ul>{% for failure in table.failures() %}<li>{{ failure }}</li>{% endfor %}</ul>
{% endif %}
</main></body></html>
"""


def _html(table: Table) -> str:
    from jinja2 import Environment

    # a name of the first column is text, which has no `best`
    pages = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    return pages.from_string(_PAGE).render(table=table, plain=_plain)


FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
}
