"""Whole histories: what one without any fault comes to."""

from __future__ import annotations

from kafkalite.testing.simulation.plan import draw_plan
from kafkalite.testing.simulation.run import run_history

COMPACTS = 1059
"""A seed in whose history logs are compacted while they are written."""


def test_a_compacted_topic_may_have_gaps() -> None:
    plan = draw_plan(COMPACTS)
    keyed = [index for index, client in enumerate(plan.clients) if client.kind in ("keyed", "compacted-reader")]
    outcome = run_history(plan.keep(steps=[], clients=keyed))
    assert not outcome.violations
    assert outcome.acknowledged > 100
