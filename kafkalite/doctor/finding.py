"""What a check of the doctor has found. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How bad a finding is; the value is the exit code of ``kafkalite doctor``."""

    WARNING = 1
    """The cluster serves, and the next fault costs more than it should."""
    ERROR = 2
    """Clients are refused, or data are in danger, now or soon."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``check``: name of the check, ``where``: the part of the cluster that is concerned.

    ``what`` says what is wrong, ``why`` what that causes or comes from, ``mend`` the shell commands that mend it, in
    their order; ``<words in brackets>`` in them stand for what only the operator knows.
    """

    check: str
    severity: Severity
    where: str
    what: str
    why: str
    mend: tuple[str, ...]
