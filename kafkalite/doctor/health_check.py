"""A check of the doctor: a pure function on a snapshot, with what its page in the documentation says. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafkalite.doctor.finding import Finding
from kafkalite.doctor.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """``name`` stands in the findings; ``looks_for`` and ``remedy`` are the lines of ``docs/doctor.md``."""

    name: str
    severity: str
    looks_for: str
    remedy: str
    find: Callable[[Snapshot], Iterator[Finding]]
