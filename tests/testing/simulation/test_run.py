"""Whole histories: what one without any fault comes to."""

from __future__ import annotations

from dataclasses import replace

from kafkalite.testing.simulation.plan import ClientStep, draw_plan
from kafkalite.testing.simulation.run import run_history


def test_a_compacted_topic_may_have_gaps() -> None:
    """Logs are compacted while they are written and read."""
    kinds = ("keyed", "keyed", "compacted-reader")
    clients = tuple(ClientStep(0.1, kind, number) for number, kind in enumerate(kinds))
    outcome = run_history(replace(draw_plan(1059), steps=(), clients=clients))
    assert not outcome.violations
    assert outcome.acknowledged > 100
