"""What a table is before it is Markdown, LaTeX, CSV or HTML."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TableEntry:
    """One value of a table.

    Attributes:
        mean, std: over seeds, in the units that are printed; None = there is none.
        seeds: how many.
        digits: after the point.
        paper: the paper's value.
        best, dagger: whether it wins its column, and significantly so.
        failure: why there is no value, if something failed.
        text: shown instead of a number.
    """

    mean: float | None = None
    std: float | None = None
    seeds: int = 0
    digits: int = 1
    paper: float | None = None
    best: bool = False
    dagger: bool = False
    failure: str | None = None
    text: str | None = None

    def own(self) -> str:
        """Our value.

        >>> TableEntry(mean=97.44, std=0.31, seeds=5, dagger=True).own()
        '97.4 ± 0.3†'
        >>> TableEntry().own(), TableEntry(failure="MemoryError: no").own()
        ('-', 'failed')
        """
        if self.text is not None:
            return self.text
        if self.failure is not None:
            return "failed"
        if self.mean is None:
            return "-"
        spread = "" if self.std is None else f" ± {self.std:.{self.digits}f}"
        return f"{self.mean:.{self.digits}f}{spread}{'†' if self.dagger else ''}"

    def papers(self) -> str:
        """The paper's value, or nothing."""
        return "" if self.paper is None else f"{self.paper:.{self.digits}f}"


@dataclass(frozen=True)
class Section:
    """The part of a table that is about one data set.

    Attributes:
        data: its name.
        title: as printed.
        columns: titles.
        rows: title of the method and one entry per column.
        notes: sentences below.
    """

    data: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[TableEntry, ...]], ...]
    notes: tuple[str, ...] = ()

    def has_paper(self, column: int) -> bool:
        """Whether the paper has any value in a column."""
        return any(entries[column].paper is not None for _, entries in self.rows)

    def grid(self) -> tuple[list[str], list[list[TableEntry | str]]]:
        """Headings and cells, with the paper's values as columns of their own."""
        headings = ["method"]
        for number, column in enumerate(self.columns):
            headings += [column, "paper"] if self.has_paper(number) else [column]
        cells: list[list[TableEntry | str]] = []
        for title, entries in self.rows:
            line: list[TableEntry | str] = [title]
            for number, entry in enumerate(entries):
                line += [entry, entry.papers()] if self.has_paper(number) else [entry]
            cells.append(line)
        return headings, cells


@dataclass(frozen=True)
class Table:
    """A table: one section per data set."""

    number: str
    title: str
    notes: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def heading(self) -> str:
        """Number and title."""
        return self.title if self.number == "honest" else f"Table {self.number}: {self.title}"

    def failures(self) -> list[str]:
        """One sentence about each value that failed."""
        return [
            f"{section.title}, {title}, {column}: {entry.failure}"
            for section in self.sections
            for title, entries in section.rows
            for column, entry in zip(section.columns, entries, strict=True)
            if entry.failure is not None
        ]
