"""What exists and what may change: bounds, frozen features, categories, threats, and the gauge of valid rows."""

from r2et.domain.domain import Domain
from r2et.domain.gauge import WithoutGauge, without_gauge
from r2et.domain.reach import IN_WORDS, Reach, Threat, check_threat, chosen_threat, under_threat
from r2et.domain.units import InUnits, in_plausible_units

__all__ = [
    "IN_WORDS",
    "Domain",
    "InUnits",
    "Reach",
    "Threat",
    "WithoutGauge",
    "check_threat",
    "chosen_threat",
    "in_plausible_units",
    "under_threat",
    "without_gauge",
]
