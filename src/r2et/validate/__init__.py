"""Is this model one whose explanations can be measured, attacked and trained? Findings, and a repair."""

from r2et.validate.inspection import check, piecewise_linear
from r2et.validate.report import Finding, Report
from r2et.validate.softplus import smooth

__all__ = ["Finding", "Report", "check", "piecewise_linear", "smooth"]
