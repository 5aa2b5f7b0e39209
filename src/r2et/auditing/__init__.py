"""One call: a model and data in, everything r2et can say about its explanations out, side by side."""

from r2et.auditing.examples import Example, Reason
from r2et.auditing.inputs import Outcome
from r2et.auditing.lists import KappaBracket
from r2et.auditing.own_rows import OwnRows
from r2et.auditing.provenance import Made, Source
from r2et.auditing.result import AttackRow, Audit, AuditSettings
from r2et.auditing.running import audit
from r2et.auditing.samples import Picture, Samples
from r2et.auditing.subjects import Subject, choose_rows, from_data_set, from_table

__all__ = [
    "AttackRow",
    "Audit",
    "AuditSettings",
    "Example",
    "KappaBracket",
    "Made",
    "Outcome",
    "OwnRows",
    "Picture",
    "Reason",
    "Samples",
    "Source",
    "Subject",
    "audit",
    "choose_rows",
    "from_data_set",
    "from_table",
]
