"""What `check` returns."""

import textwrap
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One problem of a model.

    Attributes:
        code: a fixed name of the problem, such as "dropout".
        severity: "error": results would be wrong or the work would stop; "warning": some methods lose their
            meaning; "note": good to know.
        where: the layers or the rows concerned.
        message: what it means.
        repair: what to do.
    """

    code: str
    severity: Severity
    where: str
    message: str
    repair: str


@dataclass(frozen=True)
class Report:
    """All that `check` found, errors first.

    >>> Report(()).ok
    True
    >>> print(Report((Finding("dropout", "error", "layer 'drop'", "It is on.", "model.eval()"),)).summary())
    1 error, 0 warnings, 0 notes
    <BLANKLINE>
    error [dropout] layer 'drop'
      It is on.
      Repair: model.eval()
    """

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    def summary(self) -> str:
        """The findings as text of at most 80 columns."""
        counts = []
        for severity in ("error", "warning", "note"):
            count = sum(finding.severity == severity for finding in self.findings)
            counts.append(f"{count} {severity}{'' if count == 1 else 's'}")
        blocks = [", ".join(counts)]
        for finding in self.findings:
            head = f"{finding.severity} [{finding.code}] {finding.where}"
            parts = [("", head, "  "), ("  ", finding.message, "  "), ("  ", f"Repair: {finding.repair}", "    ")]
            blocks.append(
                "\n".join(
                    textwrap.fill(text, 80, initial_indent=first, subsequent_indent=rest)
                    for first, text, rest in parts
                )
            )
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        """The report as numbers and strings, for JSON."""
        return {"ok": self.ok, "findings": [asdict(finding) for finding in self.findings]}
