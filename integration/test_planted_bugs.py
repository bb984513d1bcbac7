"""The simulation finds the bugs that are planted into the brokers: some of them here, all by ``make soak``."""

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
"""Of several rooms, each of which a few histories show."""
WITHIN = 20
"""Histories for the quick ones."""
MOST = 500
"""Histories for all."""
MISSED = 0.1
"""The part of the table that may be missed."""


@pytest.mark.parametrize("bug", [bug for bug in TABLE if bug.name in QUICK], ids=lambda bug: bug.name)
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
