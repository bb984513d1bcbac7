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


def test_every_history_ends_with_a_restart_of_all_brokers() -> None:
    """One broker stops in order and the others are killed, so that every kind of start loads the last state of logs."""
    plan = replace(draw_plan(3), steps=(), clients=(ClientStep(0.1, "idempotent", 0),))
    outcome = run_history(plan, story=True)
    assert not outcome.violations
    ends = [line.split()[1:] for line in outcome.story if line.endswith((" stops", " killed", " serves"))]
    hosts = sorted({host for host, _, _ in ends})
    assert sorted(host for host, _, what in ends if what != "serves") == hosts
    assert sum(what == "stops" for *_, what in ends) == 1
    assert sorted(host for host, _, what in ends if what == "serves") == sorted(2 * hosts)
