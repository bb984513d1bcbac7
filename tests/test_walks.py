"""The walks of docs/architecture.md name functions that exist and that call each other."""

from __future__ import annotations

import pytest

from integration import walks
from integration.blocks import blocks_of
from integration.walks import Hop

WALKS = walks.walks()
HOPS = [(title, hop) for title, walk in WALKS.items() for hop in walk]


def test_all_walks_were_found() -> None:
    assert len(WALKS) == len(blocks_of("docs/architecture.md", __file__)) == 3
    assert all(len(walk) >= 20 for walk in WALKS.values())


@pytest.mark.parametrize(("title", "hop"), HOPS, ids=str)
def test_a_hop_is_in_the_code(title: str, hop: Hop) -> None:
    assert walks.complaint(hop, WALKS[title]) == ""


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("common.purgatory: DelayedOperation.complete\n  common.purgatory: DelayedOperation.on_complete", ""),
        ("common.purgatory: Purgatory._expire\n  common.purgatory: Purgatory.__len__", "does not call it"),
        ("common.purgatory: Purgatory.gone", "has no attribute"),
        ("common.gone: Purgatory.complete", "No module named"),
        ("common.purgatory: Purgatory", "is no function"),
        ("replication.replica_manager: complete", "stands in kafkalite.replication.delayed_operations"),
        ("common.purgatory: Purgatory.shutdown\n  ~ common.clock: Clock.gone_for_good", "has no attribute"),
        ("common.purgatory: Purgatory.shutdown\n  ~ common.tasks: Lane.put", "no module of the walk hands it over"),
    ],
)
def test_a_wrong_hop_is_found(lines: str, complaint: str) -> None:
    walk = list(walks.parse(lines))
    assert complaint in walks.complaint(walk[-1], walk)
    assert complaint or not walks.complaint(walk[-1], walk)


@pytest.mark.parametrize("line", ["  common.purgatory: Purgatory.shutdown", "text", "common.purgatory Purgatory"])
def test_a_line_that_is_no_hop_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no hop"):
        list(walks.parse(line))
