"""Whether the reasons are about the single input, in plain words."""

from r2et.auditing import Audit, KappaBracket
from r2et.individuality import LIST_PER_CLASS, Kappa
from r2et.report.words import HARD_SPACE, MINUS, number, percent, rows_called


def lists_in_words(audit: Audit) -> str:
    """How many lists there are, and what two of them share."""
    lists = audit.individuality
    each = "explanations" if audit.samples.members == 2 else rows_called(audit, lists.total)
    if lists.total == 1:
        return "There is one list only, and no other to compare it with."
    if not lists.comparable:
        return f"There are {lists.total:,} lists, of which no two can be compared."
    by_chance = f"lists drawn by chance would share {percent(lists.chance)}"
    return " ".join(filter(None, (f"{_alike(audit, each)}; {by_chance}.", _per_class(audit), _moved(audit))))


def _alike(audit: Audit, each: str) -> str:
    lists = audit.individuality
    if lists.distinct == 1:
        return f"All {lists.total:,} {each} have the same list"
    shared = (
        f"The {lists.total:,} {each} have {lists.distinct:,} different lists, as diverse as "
        f"{number(lists.effective, 2)} that are equally frequent. Two of them share {percent(lists.overlap)} of "
        "their reasons on average"
    )
    # signed lists are compared within a prediction anyway
    if audit.outcome is not None or lists.signed or lists.overlap_in_class != lists.overlap_in_class:
        return shared
    return f"{shared}, {percent(lists.overlap_in_class)} if both get the same prediction"


def _per_class(audit: Audit) -> str:
    if not audit.individuality.one_per_class:
        return ""
    return f"It is {LIST_PER_CLASS}, and says nothing more about a single input."


def _moved(audit: Audit) -> str:
    if audit.movable == 1:
        return ""
    return (
        f"{percent(audit.movable)} of the reasons are {audit.ranks} that an attacker can move; the others are "
        "attacked through those."
    )


def kappa_rows(audit: Audit) -> list[dict[str, str]]:
    """Norm, proven and attacked kappa with their intervals, as text."""
    return [_kappa_row(bracket) for bracket in audit.kappas]


def _kappa_row(bracket: KappaBracket) -> dict[str, str]:
    proven, attacked = (_with_interval(kappa) for kappa in (bracket.proven, bracket.attacked))
    return {"radius": number(bracket.radius), "proven": proven, "attacked": attacked}


def _with_interval(kappa: Kappa | None) -> str:
    r"""A value with its interval, or a dash.

    >>> _with_interval(Kappa(0.5, 0.41, 0.62)), _with_interval(None)
    ('0.50 (0.41\xa0to\xa00.62)', '–')
    """
    if kappa is None:
        return number(None)
    value, low, high = (f"{end:.2f}".replace("-", MINUS) for end in (kappa.value, kappa.low, kappa.high))
    return f"{value} ({low}{HARD_SPACE}to{HARD_SPACE}{high})" if kappa.low <= kappa.high else value
