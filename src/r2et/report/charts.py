"""The charts of the report as inline SVG: colours come from the page's style sheet, so both themes fit."""

import math
from collections.abc import Callable, Sequence

import torch
from markupsafe import Markup, escape

from r2et.auditing import Audit
from r2et.certificates import Certificate
from r2et.report.words import number, percent, percent_fine

Across = Callable[[float], float]

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 14, 50


def bracket(audit: Audit, span: tuple[float, float]) -> Markup:
    """P@k against the radius: certified from below, WorstCase from above, random noise.

    Args:
        audit: of the model.
        span: smallest and largest radius that are drawn, see `radius_span`.
    """
    radii = audit.samples.radii
    low, high = span

    def across(radius: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(radius / low) / math.log(high / low)

    curve = audit.curve("WorstCase")
    if audit.bracket is not None:
        # of the rows that are certified, in the precision of the proof
        curve = [(ends.radius, ends.attacked) for ends in audit.bracket.mean()]
    worst = [point for point in curve if low <= point[0] <= high]
    noise = audit.curve("NoiseAttack")
    parts = [_shares(audit.k), _radii(radii, low, across)]
    upper = _stairs(worst, low)
    if audit.certificate is not None:
        proven = _proven(audit.certificate, radii)
        below = [value for radius, value in proven if radius <= low]
        lower = [(low, below[-1] if below else 1.0), *((r, v) for r, v in proven if low < r <= high)]
        parts.append(f'<polygon class="band" points="{_points([*upper, *reversed(lower)], across)}"/>')
        parts.append(f'<polyline class="line proven" points="{_points(lower, across)}"/>')
    parts.append(f'<polyline class="line noise" points="{_points([(low, 1.0), *noise], across)}"/>')
    parts.append(f'<polyline class="line worst" points="{_points(upper, across)}"/>')
    for kind, called, points in (("noise", "random noise", noise), ("worst", "WorstCase", worst)):
        parts += [
            _mark(kind, across(radius), _down(value), f"{called}, norm {number(radius)}: {percent_fine(value)}")
            for radius, value in points
        ]
    ends = ", ".join(f"{percent(value)} at norm {number(radius)}" for radius, value in worst)
    described = f"Share of the {audit.k} reasons that stay, against the norm of the change. Worst attack: {ends}."
    return _svg(described, parts)


def _proven(certificate: Certificate, attacked: Sequence[float]) -> list[tuple[float, float]]:
    """Points of the mean certified P@k by rising radius; those of the attacks are among them."""
    # four decades below the largest radius: certified radii can be far smaller than attacks
    curve = (max(attacked) * 10 ** (-4 + step / 50) for step in range(200))
    return [(radius, float(certificate.precision_at(radius).mean())) for radius in sorted({*curve, *attacked})]


def radius_span(audits: Sequence[Audit]) -> tuple[float, float]:
    """From where most rows are certified, but at most three decades, to the largest radius of all models."""
    radii = [radius for audit in audits for radius in audit.samples.radii]
    lows = [min(radii) / 3]
    for audit in audits:
        certified = audit.samples.certified
        finite = certified[certified.isfinite() & (certified > 0)]
        if len(finite):
            lows.append(max(float(finite.quantile(0.05)), max(radii) * 1e-3))
    return min(lows), max(radii) * 1.05


def _stairs(points: Sequence[tuple[float, float]], low: float) -> list[tuple[float, float]]:
    """A value holds until the next radius: more room never helps the explanation."""
    stairs, value = [(low, 1.0)], 1.0
    for radius, after in points:
        stairs += [(radius, value), (radius, after)]
        value = after
    return stairs


def _down(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _points(points: Sequence[tuple[float, float]], across: Across) -> str:
    return " ".join(f"{across(radius):.1f},{_down(value):.1f}" for radius, value in points)


def _mark(kind: str, x: float, y: float, text: str) -> str:
    shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    if kind == "noise":
        shape = f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>'
    return f'<g class="mark {kind}">{shape}<title>{escape(text)}</title></g>'


def _shares(k: int) -> str:
    """The axis of P@k, with lines across."""
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _down(share)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>')
    return "".join(parts)


def _radii(radii: Sequence[float], low: float, across: Across) -> str:
    """The logarithmic axis of the norm: the attacked radii, and powers of ten where there is room."""
    ticks: list[float] = []
    powers = [10.0**exponent for exponent in range(-9, 10) if low <= 10.0**exponent <= max(radii)]
    for value in [*sorted(radii, reverse=True), *powers]:
        if all(abs(across(value) - across(other)) > 46 for other in ticks):
            ticks.append(value)
    parts = []
    for value in ticks:
        x = across(value)
        parts.append(
            f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{_down(0):.1f}" y2="{_down(0) + 5:.1f}"/>'
            f'<text x="{x:.1f}" y="{_down(0) + 20:.1f}" text-anchor="middle">{number(value, 2)}</text>'
        )
    return "".join(parts) + _caption("norm of the change, at most (logarithmic)")


def _caption(text: str) -> str:
    middle = (LEFT + WIDTH - RIGHT) / 2
    return f'<text class="axis" x="{middle:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(text)}</text>'


def thickness_floor(audits: Sequence[Audit]) -> float:
    """Where the histograms of all models begin: a round number below every thickness."""
    return 1 - _round_up(1 - min(float(audit.thickness.min()) for audit in audits))


def histogram(audit: Audit, low: float) -> Markup:
    """How many rows have which thickness, from `low` to 1."""
    values = audit.thickness.double()
    bins = 20
    counts = torch.histc(values, bins, low, 1.0).tolist()
    most = max(counts)
    inside = WIDTH - LEFT - RIGHT
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = _down(share)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        if share != 0.5 or most % 2 == 0:
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * most:,.0f}</text>')
    for position, count in enumerate(counts):
        start = low + (1 - low) * position / bins
        words = f"{int(count):,} rows between {start:.3f} and {start + (1 - low) / bins:.3f}"
        parts.append(
            f'<rect class="bar" x="{LEFT + inside * position / bins + 1:.1f}" y="{_down(count / most):.1f}" '
            f'width="{inside / bins - 2:.1f}" height="{_down(0) - _down(count / most):.1f}">'
            f"<title>{escape(words)}</title></rect>"
        )
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            f'<text x="{LEFT + inside * share:.1f}" y="{_down(0) + 20:.1f}" '
            f'text-anchor="{"end" if share == 1 else "middle"}">{low + (1 - low) * share:.3g}</text>'
        )
    parts.append(_caption("thickness (upwards: number of rows)"))
    return _svg(
        f"Thickness of {len(values)} rows, from {float(values.min()):.3f} to {float(values.max()):.3f}", parts
    )


def _round_up(value: float) -> float:
    """The next of 0.01, 0.02, 0.05, 0.1, ..., 1.

    >>> [_round_up(value) for value in (0.0, 0.013, 0.3, 0.9)]
    [0.01, 0.02, 0.5, 1.0]
    """
    return next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if step >= value)


def _svg(described: str, parts: Sequence[str]) -> Markup:
    # every part is made above, of numbers and of escaped text
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(described)}">'
        + "".join(parts)
        + "</svg>"
    )
