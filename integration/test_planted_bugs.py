"""The simulation finds the bugs that are planted into the brokers: here some of them, by ``make soak`` all."""

from __future__ import annotations

import pytest

from integration.conftest import SOAK
from integration.planted_bugs.bug import PlantedBug
from integration.planted_bugs.hunting import hunt
from integration.planted_bugs.table import TABLE

QUICK = {
    "leader-alone-acknowledges",
    "reads-above-the-high-watermark",
    "controller-claims-no-epoch",
    "followers-miss-aborts",
    "open-transactions-are-read",
    "last-value-is-dropped",
}
"""Bugs of several rooms that a few histories find."""
DAILY = "leader-alone-acknowledges"
"""The one of them that ``make test`` hunts."""
WITHIN = 20
"""Number of histories for each of these."""
MOST = 500
"""Number of histories for each bug of the whole table."""
MISSED = 0.1
"""Share of the table that the simulation may miss."""


@pytest.mark.parametrize(
    "bug",
    [bug if bug.name == DAILY else pytest.param(bug, marks=pytest.mark.full) for bug in TABLE if bug.name in QUICK],
    ids=lambda bug: bug.name,
)
def test_a_planted_bug_is_found_soon(bug: PlantedBug) -> None:
    found = hunt(bug, WITHIN, jobs=2)
    assert found.found, f"{bug.name} was not found in {found.histories} histories: {bug.breaks}"


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
def test_the_planted_bugs_are_found() -> None:
    missed = []
    for bug in TABLE:
        found = hunt(bug, MOST, jobs=2)
        print(f"{bug.name}: {found.histories} histories, {found.violation or 'not found'}", flush=True)
        if not found.found:
            missed.append(bug.name)
    assert len(missed) <= MISSED * len(TABLE), f"not found in {MOST} histories: {', '.join(missed)}"
