"""Certificates: radii inside which the top-k features cannot change."""

from r2et.certificates.both_ends import Bracket
from r2et.certificates.bracketing import bracket
from r2et.certificates.certificate import Certificate
from r2et.certificates.choice import Method, certify
from r2et.certificates.first_order import first_order
from r2et.certificates.smoothing import NoisyCounts, Smoothing, noisy_counts, smoothed_scores
from r2et.certificates.statistical import StatisticalStability, statistical_stability

__all__ = [
    "Bracket",
    "Certificate",
    "Method",
    "NoisyCounts",
    "Smoothing",
    "StatisticalStability",
    "bracket",
    "certify",
    "first_order",
    "noisy_counts",
    "smoothed_scores",
    "statistical_stability",
]
