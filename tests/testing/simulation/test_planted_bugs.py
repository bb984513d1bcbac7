"""The planted bugs fit the package as it is. ``integration/test_planted_bugs.py``: the simulation finds them."""

from __future__ import annotations

from collections import Counter

import pytest

from integration.planted_bugs.bug import PlantedBug
from integration.planted_bugs.planting import NotPlantedError, planted_texts
from integration.planted_bugs.table import TABLE

ROOMS = {"replication", "log", "controller", "ZooKeeper sessions", "groups", "transactions", "compaction"}


@pytest.mark.parametrize("bug", TABLE, ids=lambda bug: bug.name)
def test_a_planted_bug_applies_and_compiles(bug: PlantedBug) -> None:
    for file, text in planted_texts(bug).items():
        compile(text, file, "exec")
    assert all(edit.old != edit.new for edit in bug.edits)
    assert bug.breaks
    assert bug.needs


def test_the_table_has_thirty_bugs_over_all_rooms() -> None:
    assert len(TABLE) >= 30
    assert {bug.room for bug in TABLE} == ROOMS
    assert not [name for name, count in Counter(bug.name for bug in TABLE).items() if count > 1]
    assert sum(bool(bug.also) and "lines" in bug.breaks for bug in TABLE) >= 5


def test_a_bug_whose_text_is_gone_is_refused() -> None:
    bug = PlantedBug("gone", "log", "log/log_loader.py", "no such text", "", "nothing", "nothing")
    with pytest.raises(NotPlantedError, match=r"log/log_loader\.py has 0 times, not once:\nno such text"):
        planted_texts(bug)
