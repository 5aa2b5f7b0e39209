"""Numbers and findings in plain words, computed from the figures."""

import re
from collections.abc import Sequence

import torch

from r2et.auditing import Audit
from r2et.auditing.lists import individuality_clause
from r2et.auditing.verdicts import holds, told_kappa
from r2et.certificates.both_ends import ATTACKERS
from r2et.numerics import rounding

#: stands between a number and its unit; a line does not break there
HARD_SPACE = "\u00a0"
MINUS = "\u2212"


def percent(share: float) -> str:
    r"""A share of 0 to 1 with as many digits as it takes not to look like none or all of it.

    >>> [percent(share) for share in (0.0, 0.004, 0.41, 0.997, 1.0)]
    ['0\xa0%', '0.4\xa0%', '41\xa0%', '99.7\xa0%', '100\xa0%']
    """
    return rounding.percent(share).replace(" ", HARD_SPACE)


def typeset(text: str) -> str:
    r"""A sentence as a page has it: no line break before a unit, and minus signs.

    >>> typeset("kappa -0.12, at least 66 %")
    'kappa −0.12, at least 66\xa0%'
    """
    return re.sub(r"-(?=\d)", MINUS, text.replace(" %", f"{HARD_SPACE}%"))


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash if there is none.

    >>> number(0.12345), number(1234.5), number(float("inf")), number(float("nan")), number(-0.00001234)
    ('0.123', '1,234', 'any', '–', '−0.0000123')
    """
    if value is None or value != value:
        return "–"  # noqa: RUF001 - a dash in a table
    if value in (float("inf"), float("-inf")):
        return "any"
    sign = MINUS if value < 0 else ""
    size = abs(value)
    if size >= 1000:
        return f"{sign}{size:,.0f}"
    if 0 < size < 1e-6:
        return f"{sign}{size:.1e}"
    rounded = float(f"{size:.{digits}g}")
    return sign + (f"{rounded:.10f}".rstrip("0").rstrip(".") if rounded else "0")


def rows_called(audit: Audit, count: int | None = None) -> str:
    """`inputs`, `rows` or `pairs of inputs`, in the singular for one."""
    one = count == 1
    if audit.samples.members == 2:
        return "pair of inputs" if one else "pairs of inputs"
    called = audit.calls_rows
    return called.removesuffix("s") if one else called


def size_in_words(audit: Audit, radius: float) -> str:
    """What a radius means in these data."""
    together = "all changes to one input taken together"
    if audit.settings.scale is None:
        return together
    times = radius / audit.settings.scale
    how = "one standard deviation" if 0.95 < times < 1.05 else f"{number(times, 2)} standard deviations"
    return f"about {how} of a typical feature, {together}"


def headline(audit: Audit) -> tuple[str, str]:
    """The finding in one short sentence, and in full."""
    short, full = _finding(audit)
    if one_list(audit):
        # that such a list holds is no good news
        beside = "and" if audit.worst.displaced else "but"
        short = f"{short.removesuffix('.')}, {beside} it is one list for everybody."
    return short, f"{stands(audit)} {full}"


def _finding(audit: Audit) -> tuple[str, str]:
    """The finding in one short sentence, and in full."""
    worst, k, rows = audit.worst, audit.k, audit.rows
    one_of, any_of = (f"at least one of the {k} reasons", f"any of the {k} reasons")
    if k == 1:
        one_of = any_of = "the one reason"
    called = rows_called(audit, rows)
    largest = max(audit.samples.radii)
    if worst.displaced == 0:
        tried = (
            f"No attack replaced {any_of} of any of the {rows:,} {called}, with changes up to norm "
            f"{number(largest)} ({size_in_words(audit, largest)})."
        )
        certified = audit.samples.certified
        if bool((certified == torch.inf).all()):
            return "Nothing can change these reasons.", (
                f"{tried} None can: it is proven for changes of any size, because the explanation is the same "
                "everywhere."
            )
        if bool((certified > largest).all()):
            return "No change of this size can change these reasons.", f"{tried} None can: it is proven."
        share = float((certified > largest).double().mean())
        return "No attack changed these reasons.", (
            f"{tried} That is not yet a proof: it is one for {percent(share)} of the {called}."
        )
    affected = percent(worst.changed)
    return (
        f"{affected} of these {rows_called(audit)} can be given other reasons without changing the prediction.",
        (
            f"A change of norm at most {number(worst.radius)} ({size_in_words(audit, worst.radius)}) that "
            f"keeps the prediction replaces {one_of} for {affected} of these {rows:,} "
            f"{called}, {replaced(worst.displaced)} of {k} on average (found by {worst.attack})."
        ),
    )


def stands(audit: Audit) -> str:
    """What holds, and whether it is about the single input: the first sentences of a page."""
    clause = individuality_clause(audit.individuality, told_kappa(audit), names=rows_called(audit))
    return typeset(" ".join(filter(None, (holds(audit), clause))))


def one_list(audit: Audit) -> bool:
    """Whether lists can be compared, and all are so nearly the same that they say nothing about one input."""
    return audit.individuality.comparable and audit.individuality.one_for_everybody


def same_for_all(audit: Audit) -> str:
    """What a headline adds, with a space before it; "" if the lists differ."""
    if not one_list(audit):
        return ""
    return " But it is one list for everybody: it says nothing about a single input."


def comparison(audits: Sequence[Audit]) -> tuple[str, str]:
    """Which of several models loses fewest reasons, in short, and in full with what that costs in accuracy.

    All of them are compared at the largest radius that they share.
    """
    shared = set.intersection(*(set(audit.samples.radii) for audit in audits))
    if not shared:
        return "Several models side by side.", "They were attacked at different radii: compare with care."
    radius = max(shared)
    lost = [max(row.displaced for row in audit.attacks if row.radius == radius) for audit in audits]
    k = audits[0].k
    best = min(range(len(audits)), key=lambda position: lost[position])
    others = [position for position in range(len(audits)) if position != best]
    if all(lost[position] == lost[best] for position in others):
        return "These models lose equally many reasons.", (
            f"At norm {number(radius)} each of them loses {lost[best]:.1f} of {k} on average."
        )
    against = ", ".join(f"{lost[position]:.1f} for “{audits[position].name}”" for position in others)
    accuracies = ", ".join(f"{_accuracy(audits[p])[1]} for “{audits[p].name}”" for p in others)
    figure, own = _accuracy(audits[best])
    return f"“{audits[best].name}” loses fewest reasons.", (
        f"Under the strongest attack of norm {number(radius)} it loses {lost[best]:.1f} of {k} reasons on "
        f"average, against {against}. Its {figure} is {own}, "
        f"against {accuracies}.{same_for_all(audits[best])}"
    )


def percent_fine(share: float) -> str:
    r"""With one decimal place, and never all of it unless it is.

    >>> percent_fine(0.8456), percent_fine(0.99996)
    ('84.6\xa0%', '>99.9\xa0%')
    """
    return of_hundred(rounding.one_digit(share))


def replaced(count: float) -> str:
    """How many reasons were replaced on average: some are not none.

    >>> replaced(1.38), replaced(0.004), replaced(0.0)
    ('1.4', '<0.1', '0.0')
    """
    return "<0.1" if 0 < count < 0.05 else f"{count:.1f}"


def thickness_in_words(audit: Audit) -> str:
    """Where most of the rows are, and the thinnest of them."""
    values = audit.thickness.double()
    thinnest = int(values.argmin())
    if bool((values == 1).all()):
        return "Every pair keeps its order, for every row."
    median = float(values.median())
    half = "all of them" if median == 1 else f"at least {percent(median)}"
    return (
        f"On average {percent(float(values.mean()))} of the pairs keep their order; for half of the rows {half} "
        f"do, and for the thinnest one (row {audit.row_name(thinnest)}) {percent(float(values[thinnest]))}."
    )


def of_hundred(share: str) -> str:
    r"""A share in percent that is already rounded.

    >>> of_hundred("99.9")
    '99.9\xa0%'
    """
    return f"{share}{HARD_SPACE}%"


def bracket_in_words(audit: Audit) -> str:
    """Whom and what the two ends are about; "" where there is one end alone."""
    if audit.bracket is None:
        return ""
    about = "; ".join([f"threat {audit.bracket.threat}", ATTACKERS[audit.bracket.prediction]])
    return (
        f"Proven and attack are of the same {len(audit.bracket):,} rows and of the model in float64, rounded "
        f"outwards ({about})."
    )


def proof_in_words(audit: Audit) -> str:
    """What the certificate says about a typical row."""
    if audit.certificate is None:
        return f"There is no certificate. {audit.settings.uncertified}"
    known = audit.samples.certified[~audit.samples.certified.isnan()]
    if bool((known == torch.inf).all()):
        proven = "It is proven that no change of any size replaces a reason."
    else:
        median = float(known.median())
        proven = (
            f"It is proven that for half of the rows no change of norm below {number(median, 2)} replaces a "
            f"reason (smallest {number(float(known.min()), 2)}, largest {number(float(known.max()), 2)})."
        )
    return f"{proven} {audit.settings.uncertified}".strip()


#: what the attacks do, for readers who have not heard of them
ATTACKS = {
    "NoiseAttack": ("Noise", "one random change; nobody aims it"),
    "ERAttack": ("ER", "raises the scores of other features until they overtake the reasons"),
    "MSEAttack": ("MSE", "pushes the whole explanation away from the original"),
    "WorstCase": ("WorstCase", "for each row, the strongest of a fixed set of attacks; the figure to report"),
}

FAITHFULNESS = {
    "dffot": (
        "Decision flip",
        "share of the features, most important first, that must be removed before the prediction changes",
        "lower",
    ),
    "comprehensiveness": (
        "Comprehensiveness",
        "how much the probability moves when the most important features are removed",
        "higher",
    ),
    "sufficiency": (
        "Sufficiency",
        "how much the probability moves when only the most important features are kept",
        "lower",
    ),
}


def in_words(value: object) -> str:
    """A setting for people: lists with commas, numbers with few digits.

    >>> in_words([0.1, 0.30000001]), in_words(None)
    ('0.1, 0.3', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(in_words, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _accuracy(audit: Audit) -> tuple[str, str]:
    """How well a model predicts, in one figure: what it is called, and its value."""
    if audit.outcome is None:
        return "accuracy", percent_fine(audit.accuracy)
    return "R2", f"{audit.r2:.3f}"
