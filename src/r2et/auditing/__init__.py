"""One call: a model and data in, everything r2et can say about its explanations out, side by side."""

from r2et.auditing.result import AttackRow, Audit
from r2et.auditing.running import audit
from r2et.report.content import Samples

__all__ = ["AttackRow", "Audit", "Samples", "audit"]
