"""Properties of the plans of all seeds."""

from __future__ import annotations

from kafkalite.testing.simulation.plan import ACTIVE, draw_plan
from kafkalite.testing.simulation.scenarios import SCENARIOS


def test_every_composed_scenario_begins_early_in_some_plan_of_sixty() -> None:
    early = {step.scenario for seed in range(1, 61) for step in draw_plan(seed).steps if step.at <= ACTIVE / 3}
    assert {name for name, scenario in SCENARIOS.items() if not scenario.single} - early == set()


def test_steps_come_in_order_with_a_random_source_each() -> None:
    for seed in range(60):
        steps = draw_plan(seed).steps
        assert [step.at for step in steps] == sorted(step.at for step in steps)
        assert [step.stream for step in steps] == list(range(len(steps)))
