"""A table as Markdown, LaTeX, CSV or HTML, from one source."""

import csv
import html
import io
from collections.abc import Callable

from r2et.numerics.values import check_choice
from r2et_bench.layout import Entry, Section, Table


def render(table: Table, form: str) -> str:
    """A table in one of the formats of `FORMATS`.

    >>> section = Section("adult", "Adult", ("P@k",), (("R2ET", (Entry(mean=92.1, paper=90.0, best=True),)),))
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


def _plain(cell: Entry | str, before: str = "", after: str = "") -> str:
    if isinstance(cell, str):
        return cell
    return f"{before}{cell.own()}{after}" if cell.best else cell.own()


_LATEX = {"\\": r"\textbackslash{}", "%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#", "$": r"\$", "±": r"$\pm$"}
_LATEX |= {"†": r"$^\dagger$", "✗": r"$\times$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\^{}"}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex(table: Table) -> str:
    blocks = []
    for section in table.sections:
        headings, cells = section.grid()
        rows = [
            " & ".join(
                f"\\textbf{{{_escape_latex(cell.own())}}}"
                if isinstance(cell, Entry) and cell.best
                else _escape_latex(_plain(cell))
                for cell in line
            )
            + r" \\"
            for line in cells
        ]
        blocks.append(
            "\n".join(
                [
                    r"\begin{table}",
                    r"\centering",
                    f"\\caption{{{_escape_latex(f'{table.heading}. {section.title}.')}}}",
                    f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
                    r"\toprule",
                    " & ".join(_escape_latex(heading) for heading in headings) + r" \\",
                    r"\midrule",
                    *rows,
                    r"\bottomrule",
                    r"\end{tabular}",
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(blocks) + "\n"


def _csv(table: Table) -> str:
    """One line a value: what a spreadsheet or a script wants."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "table",
            "data",
            "method",
            "column",
            "mean",
            "std",
            "seeds",
            "paper",
            "best",
            "significant",
            "text",
            "failure",
        ]
    )
    for section in table.sections:
        for title, entries in section.rows:
            for column, entry in zip(section.columns, entries, strict=True):
                writer.writerow(
                    [
                        table.number,
                        section.data,
                        title,
                        column,
                        entry.mean,
                        entry.std,
                        entry.seeds,
                        entry.paper,
                        entry.best,
                        entry.dagger,
                        entry.text,
                        entry.failure,
                    ]
                )
    return out.getvalue()


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.paper { opacity: .65; }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e6e6e6; } }
"""


def _html(table: Table) -> str:
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(table.heading)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body><main>",
        f"<h1>{html.escape(table.heading)}</h1>",
        *(f"<p>{html.escape(note.replace('**', ''))}</p>" for note in table.notes),
    ]
    for section in table.sections:
        headings, cells = section.grid()
        paper = {number for number, heading in enumerate(headings) if heading == "paper"}
        parts += [
            f"<h2>{html.escape(section.title)}</h2>",
            '<div class="wide" tabindex="0"><table><thead><tr>',
            *(f'<th scope="col">{html.escape(heading)}</th>' for heading in headings),
            "</tr></thead><tbody>",
        ]
        for line in cells:
            parts.append("<tr>")
            for number, cell in enumerate(line):
                text = html.escape(_plain(cell))
                text = f"<strong>{text}</strong>" if isinstance(cell, Entry) and cell.best else text
                kind = ' class="paper"' if number in paper else ""
                parts.append(f'<th scope="row">{text}</th>' if number == 0 else f"<td{kind}>{text}</td>")
            parts.append("</tr>")
        parts.append("</tbody></table></div>")
        parts += [f"<p>{html.escape(note)}</p>" for note in section.notes]
    if table.failures():
        items = "".join(f"<li>{html.escape(failure)}</li>" for failure in table.failures())
        parts.append(f"<h2>Failed</h2><ul>{items}</ul>")
    return "\n".join([*parts, "</main></body></html>"]) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
}
