"""The finding of an audit in a few sentences: what holds, whose lists they are, what was replaced."""

from typing import TYPE_CHECKING

import torch

from r2et.auditing.lists import KappaBracket, individuality_clause
from r2et.certificates.both_ends import Ends, outwards
from r2et.numerics.rounding import one_digit, percent

if TYPE_CHECKING:
    from r2et.auditing.result import Audit


def told_radius(audit: "Audit") -> float:
    """The radius that a verdict is about: of the worst finding, or the largest if nothing was found."""
    return audit.worst.radius if audit.worst.displaced else max(row.radius for row in audit.attacks)


def told_kappa(audit: "Audit") -> KappaBracket | None:
    """Kappa at that radius."""
    radius = told_radius(audit)
    return next((bracket for bracket in audit.kappas if bracket.radius == radius), None)


def told_ends(audit: "Audit") -> tuple[str, str]:
    """P@k at that radius in percent, proven and attacked; "" for what is not proven."""
    radius = told_radius(audit)
    both = () if audit.bracket is None else audit.bracket.mean()
    ends = next((ends for ends in both if ends.radius == radius), None)
    if ends is not None:
        return outwards(ends)
    attacked = next(row.precision for row in audit.attacks if row.attack == "WorstCase" and row.radius == radius)
    return "", outwards(Ends(radius, 0.0, attacked))[1]


def holds(audit: "Audit") -> str:
    """Both ends of P@k in a sentence."""
    proven, attacked = told_ends(audit)
    about = f"P@{audit.k} at radius {told_radius(audit):g}"
    if not proven:
        return f"{about}: at most {attacked} %, attacked; nothing is proven."
    certified = 0 if audit.bracket is None else len(audit.bracket)
    whose = "" if certified == audit.rows else f", over {certified:,} of the {audit.rows:,} {audit.calls_rows}"
    return f"{about}: [{proven}, {attacked}] %, proven and attacked{whose}."


def verdict(audit: "Audit") -> str:
    """What `Audit.verdict` returns."""
    sentences = [
        holds(audit),
        individuality_clause(audit.individuality, told_kappa(audit), names=audit.calls_rows),
        _replaced(audit),
    ]
    if not audit.complete:
        sentences.append(f"Interrupted: only the first {audit.rows} of {audit.requested} inputs were audited.")
    return " ".join(filter(None, sentences))


def _replaced(audit: "Audit") -> str:
    """What attacks made of the lists."""
    worst, what = audit.worst, audit.ranks
    if worst.displaced == 0:
        largest = told_radius(audit)
        return (
            f"No attack changed any of the top {audit.k} {what} of any of the {audit.rows} {audit.calls_rows}, "
            f"up to radius {largest:g}.{_proven(audit, largest)}"
        )
    average = f"{worst.displaced:.1f}" if worst.displaced >= 0.05 else "fewer than 0.1"
    return (
        f"A change of norm at most {worst.radius:g} that keeps the prediction replaces at least one of "
        f"the top {audit.k} {what} for {percent(worst.changed)} of the {audit.calls_rows}, {average} of "
        f"{audit.k} on average ({worst.attack})."
    )


def _proven(audit: "Audit", radius: float) -> str:
    certified = audit.samples.certified
    if bool((certified == torch.inf).all()):
        return " None can, at any radius: it is certified."
    return " None can: it is certified." if bool((certified > radius).all()) else ""


def attack_lines(audit: "Audit") -> list[str]:
    """The table of attacks, a line each."""
    width = max(12, *(len(row.attack) for row in audit.attacks))
    heading = (
        f"{'attack':{width}} {'radius':>7} {'P@' + str(audit.k):>7} {'displaced':>10} {'inputs changed':>15} "
        f"{'distance':>9}"
    )
    lines = [
        f"{row.attack:{width}} {row.radius:7g} {one_digit(row.precision):>7} {row.displaced:10.2f} "
        f"{one_digit(row.changed) + '%':>15} {row.distance:9.3f}"
        for row in audit.attacks
    ]
    return [heading, *lines, f"{'by chance':{width}} {'':7} {one_digit(audit.individuality.chance):>7}"]
