"""`check_table`: what is wrong with a table, before a model is trained on it."""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from r2et.errors import InputError
from r2et.numerics.values import check_columns, check_flag, check_kind, check_seed, suggestion
from r2et.progress import Advance, progress_bar
from r2et.tables.checks.contents import decisive, remarks
from r2et.tables.checks.copies import copies
from r2et.tables.checks.leaks import LeakTest, leak
from r2et.tables.checks.numbering import numbering
from r2et.tables.checks.profile import Profile, profiled
from r2et.tables.checks.remarks import KINDS, Remark
from r2et.tables.checks.repeats import first_of_each, repeated
from r2et.tables.checks.target import balance, class_counts, fifths, no_number, unpredictable
from r2et.tables.columns import column_names, listed_names
from r2et.tables.findings import Finding, TableReport
from r2et.tables.labelled import LabelledTable

#: values from which on a check takes longer than a few seconds
LARGE = 3_000_000
#: a list of reasons names one of several
LEAST_COLUMNS = 2


def check_table(
    table: LabelledTable,
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numbers: bool = False,
    seed: int = 0,
    progress: bool = False,
) -> TableReport:
    """Look for what makes a table unfit for training, and decide which columns are left out.

    Left out are row numbers, identifiers, constants, empty columns, exact copies and texts of which hardly any is
    found twice. Everything else is only said, a column that gives the target away in a warning: whether it is one
    only a person can know.

    Args:
        table: columns and labels, as `r2et.tables.read_table` returns them.
        keep: columns that stay, whatever is found: it is said as a warning.
        drop: columns that a person leaves out.
        categorical: columns of numbers that are categories.
        numbers: whether the target is a number that is predicted, not a class.
        seed: of the rows and folds on which single columns predict the target.
        progress: show a bar if the table is a large one.

    >>> import pandas as pd
    >>> from pathlib import Path
    >>> ages, visits = [20, 30, 30, 50] * 25, [1, 2, 3, 4, 5] * 20
    >>> frame = pd.DataFrame({"row": range(100), "age": ages, "visits": visits, "country": "AT"})
    >>> table = LabelledTable(Path("people.csv"), frame, "bought", pd.Series(["yes", "no"] * 50, name="bought"))
    >>> report = check_table(table)
    >>> dict(report.dropped)
    {'row': 'row number', 'country': 'constant'}
    >>> report.kept
    ('age', 'visits')
    """
    check_kind("table", table, LabelledTable, "what r2et.tables.read_table returns")
    _check_parts(table)
    check_seed(seed)
    check_flag("progress", progress)
    check_flag("numbers", numbers)
    names = column_names(table.frame)
    wanted, unwanted, coded = (
        _known(option, values, names)
        for option, values in (("keep", keep), ("drop", drop), ("categorical", categorical))
    )
    if wanted & unwanted:
        raise InputError(f"column {min(wanted & unwanted)!r} is to be kept and to be dropped: choose one")
    large = table.frame.size > LARGE
    with progress_bar("check", 2 * len(names), progress and large) as advance:
        check = _Check(table, wanted, unwanted, coded, numbers=numbers, seed=seed)
        return check.report(advance)


def _check_parts(table: LabelledTable) -> None:
    """A table that nobody read from a file may have anything in it."""
    check_columns("the table", table.frame.columns)
    missing = int(table.labels.isna().sum())
    if len(table.labels) != len(table.frame) or missing or not len(table.labels):
        raise InputError(
            f"{len(table.labels)} labels, {missing} of them missing, for {len(table.frame)} rows: each "
            "row needs one"
        )


def _known(option: str, values: Sequence[str], names: list[str]) -> frozenset[str]:
    """Names of columns that there are."""
    listed = listed_names(option, values)
    for name in listed:
        if name not in names:
            raise InputError(f"{option} names {name!r}, which is no column{suggestion(name, names[:40])}")
    return frozenset(listed)


class _Check:
    """One run of the checks over a table."""

    def __init__(
        self,
        table: LabelledTable,
        wanted: Collection[str],
        unwanted: Collection[str],
        categorical: Collection[str],
        *,
        numbers: bool,
        seed: int,
    ) -> None:
        self.table, self.numbers, self.seed = table, numbers, seed
        self.wanted, self.unwanted, self.categorical = frozenset(wanted), frozenset(unwanted), categorical
        self.remarks: list[Remark] = []

    def report(self, advance: Advance) -> TableReport:
        """Everything that is to be said."""
        target = profiled(self.table.labels, self.table.target)
        profiles = list(self._profiles(advance))
        stay = self._without_useless(profiles, target)
        problem = no_number(target) if self.numbers else unpredictable(target)
        if problem is not None:
            self._add([problem])
        elif not self.numbers:
            self._add(balance(target))
        stay = self._without_copies(stay)
        for profile in stay:
            self._add(remarks(profile))
        if problem is None:
            self._leaks(stay, target, advance)
        self._add(repeated(stay, target, self.table.numbers if self.table.unlabelled else None))
        if len(stay) < LEAST_COLUMNS:
            seen = f"{len(stay)} of {len(profiles)} columns are left, and a list ranks at least {LEAST_COLUMNS}"
            self._add([Remark("too few columns", "", seen, {"columns": len(stay)})])
        return self._as_report(profiles, target)

    def _profiles(self, advance: Advance) -> Iterator[Profile]:
        for place, name in enumerate(column_names(self.table.frame)):
            profile = profiled(self.table.frame.iloc[:, place], name)
            numbers = profile.kind in ("number", "whole number") and name in self.categorical
            yield replace(profile, kind="text", numbers=None) if numbers else profile
            advance(1)

    def _add(self, remarks: Iterable[Remark]) -> None:
        self.remarks.extend(remarks)

    def _leaves(self, remark: Remark) -> bool:
        """Whether a column is left out for what was seen in it."""
        return bool(KINDS[remark.kind].reason) and remark.column not in self.wanted

    def _without_useless(self, profiles: list[Profile], target: Profile) -> list[Profile]:
        """The columns that are not left out for what they hold themselves."""
        first = first_of_each([*profiles, target])
        stay = []
        for profile in profiles:
            if profile.name in self.unwanted:
                self._add([Remark("left out by you", profile.name, profile.words)])
                continue
            remark = decisive_of(profile, first)
            if remark is not None:
                self._add([remark])
            if remark is None or not self._leaves(remark):
                stay.append(profile)
        return stay

    def _without_copies(self, profiles: list[Profile]) -> list[Profile]:
        seen = list(copies(profiles, self.wanted))
        self._add(seen)
        gone = {remark.column for remark in seen if self._leaves(remark)}
        return [profile for profile in profiles if profile.name not in gone]

    def _leaks(self, profiles: list[Profile], target: Profile, advance: Advance) -> None:
        y, values = target.codes.astype(np.int64), list(target.values)
        if self.numbers:
            y, values = fifths(target)
        test = LeakTest(y, self.seed)
        if not test.possible(len(profiles)):
            return
        for profile in profiles:
            remark = leak(profile, test, target.name, values, y)
            self._add([] if remark is None else [remark])
            advance(1)

    def _as_report(self, profiles: list[Profile], target: Profile) -> TableReport:
        dropped = {
            remark.column: _reason(remark) for remark in self.remarks if remark.column and self._leaves(remark)
        }
        return TableReport(
            name=self.table.path.name,
            rows=len(self.table.labels),
            target=self.table.target,
            classes=class_counts(target) if not self.numbers and unpredictable(target) is None else {},
            kinds={profile.name: profile.words for profile in profiles},
            findings=tuple(_findings(self.remarks, self.wanted)),
            dropped={profile.name: dropped[profile.name] for profile in profiles if profile.name in dropped},
        )


def decisive_of(profile: Profile, first: NDArray[np.int64]) -> Remark | None:
    """The reason for which a column is left out, unless a person wants it; None if there is none.

    Args:
        profile: of the column.
        first: places of the rows that are not copies of an earlier one.
    """
    remark = decisive(profile)
    # texts that are dates or numbers are no names, however many there are
    if remark is not None and (remark.kind != "many texts" or remark.figures["like"]):
        return remark
    return numbering(profile, first) or remark


def _reason(remark: Remark) -> str:
    """Why a column is left out, in a few words."""
    reason = KINDS[remark.kind].reason
    return reason.replace("another column", repr(remark.figures["of"])) if "of" in remark.figures else reason


def _findings(remarks: Sequence[Remark], wanted: Collection[str]) -> Iterator[Finding]:
    """Remarks of one kind together, the worst first; what a person keeps apart from what is left out."""
    groups: dict[tuple[str, bool], list[Remark]] = {}
    for kind, wording in KINDS.items():
        for remark in (remark for remark in remarks if remark.kind == kind):
            overruled = bool(wording.reason) and remark.column in wanted
            groups.setdefault((kind, overruled), []).append(remark)
    findings = [_finding(kind, group, overruled=overruled) for (kind, overruled), group in groups.items()]
    order = ("error", "warning", "note")
    yield from sorted(findings, key=lambda finding: order.index(finding.level))


def _finding(kind: str, group: Sequence[Remark], *, overruled: bool) -> Finding:
    wording = KINDS[kind]
    columns = tuple(remark.column for remark in group if remark.column)
    names = _as_option(columns)
    return Finding(
        kind=kind,
        level="warning" if overruled else wording.level,
        columns=columns,
        seen=tuple(remark.seen for remark in group),
        done="kept, because you name it" if overruled else wording.done,
        change=f"to leave out: --drop {names}" if overruled else wording.change.format(names=names),
        figures=tuple(remark.figures for remark in group),
    )


def _as_option(columns: Sequence[str], width: int = 46) -> str:
    """Names as they are typed behind an option; of many, the first ones.

    >>> _as_option(["age", "pay per month"]), _as_option(["a" * 30, "b" * 30])
    ("'age,pay per month'", 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,...')
    """
    ends = accumulate(len(name) + 1 for name in columns)
    fitting = max(1, sum(end <= width for end in ends))
    listed = ",".join(columns[:fitting])
    quoted = listed if shlex.quote(listed) == listed or not re.search(r"\s", listed) else shlex.quote(listed)
    return quoted + (",..." if fitting < len(columns) else "")
