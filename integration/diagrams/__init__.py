"""Diagrams of the documents, from the code and from recorded runs: ``python -m integration.diagrams`` writes them.

``tests/test_architecture.py`` fails when one of them differs from what the code draws now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from integration.diagrams.layers import layers_of_the_package
from integration.diagrams.runs import killed_leader, one_produce, rebalance
from integration.diagrams.states import group_states, partition_states

ROOT: Final = Path(__file__).resolve().parents[2]
COMMAND: Final = "python -m integration.diagrams"
DIAGRAMS: Final[Mapping[str, Callable[[str], str]]] = {
    "docs/course/group-states.svg": group_states,
    "docs/course/killed-leader.svg": killed_leader,
    "docs/course/one-produce.svg": one_produce,
    "docs/course/partition-states.svg": partition_states,
    "docs/course/rebalance.svg": rebalance,
    "docs/layers.svg": layers_of_the_package,
}
"""File → function that returns its text, given the name of the file."""


def diagram(path: str) -> str:
    """The text of a diagram."""
    return DIAGRAMS[path](Path(path).name)
