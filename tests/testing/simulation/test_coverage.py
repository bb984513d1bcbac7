"""The table of what met what counts the plans of the seeds, and names every scenario and every kind of client."""

from __future__ import annotations

from kafkalite.testing.simulation.coverage import GUARANTEES, coverage
from kafkalite.testing.simulation.plan import draw_plan
from kafkalite.testing.simulation.scenarios import SCENARIOS
from kafkalite.testing.simulation.workload import CLIENTS


def test_every_scenario_has_a_row_and_every_count_is_of_the_plans() -> None:
    head, _, *rows = coverage(range(1, 21)).splitlines()
    assert [cell.strip() for cell in head.strip("|").split("|")][2:] == list(GUARANTEES)
    cells = {row.strip("|").split("|")[0].strip().replace(" ", "_"): row.strip("|").split("|") for row in rows}
    assert list(cells) == list(SCENARIOS)
    plans = [draw_plan(seed) for seed in range(1, 21)]
    for name, found in cells.items():
        assert int(found[1]) == sum(step.scenario == name for plan in plans for step in plan.steps)
        together = sum(
            name in {step.scenario for step in plan.steps}
            and bool({"member", "sticky-member"} & {client.kind for client in plan.clients})
            for plan in plans
        )
        assert int(found[2 + list(GUARANTEES).index("groups")]) == together


def test_every_kind_of_client_is_known() -> None:
    """Readers and onlookers prove what others wrote; who does not wait for the replicas is promised nothing."""
    proving = frozenset().union(*GUARANTEES.values())
    assert set(CLIENTS) - proving == {"reader", "compacted-reader", "onlooker", "hasty"}
