"""Audits of these tests take few steps."""

from tests.little_effort import quick_audits

__all__ = ["quick_audits"]
