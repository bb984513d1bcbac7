"""A table of the number of histories with each scenario beside clients of each guarantee. Pure.

Answers to: nothing in Kafka. No history is run for it, because a plan depends only on its seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kafkalite.testing.simulation.plan import draw_plan
from kafkalite.testing.simulation.scenarios import SCENARIOS

GUARANTEES: Final[dict[str, frozenset[str]]] = {
    "records": frozenset({"idempotent", "plain"}),
    "transactions": frozenset({"transactional", "transformer", "keyed-transactional"}),
    "groups": frozenset({"member", "sticky-member"}),
    "exactly once": frozenset({"transformer"}),
    "compaction": frozenset({"keyed", "keyed-transactional"}),
    "administration": frozenset({"administrator", "spare-administrator", "to-spare-topics"}),
}
"""Guarantees that a history can prove → the kinds of clients that prove them."""


def coverage(seeds: Iterable[int]) -> str:
    """A Markdown table: for each scenario the histories that have it beside clients of each guarantee."""
    met: Counter[tuple[str, str]] = Counter()
    times: Counter[str] = Counter()
    for seed in seeds:
        plan = draw_plan(seed)
        kinds = {client.kind for client in plan.clients}
        proved = [name for name, clients in GUARANTEES.items() if clients & kinds]
        times.update(step.scenario for step in plan.steps)
        for scenario in dict.fromkeys(step.scenario for step in plan.steps):
            met.update((scenario, guarantee) for guarantee in proved)
    rows = ["| disorder | times | " + " | ".join(GUARANTEES) + " |", "|---|---:|" + "---:|" * len(GUARANTEES)]
    for name in SCENARIOS:
        counts = " | ".join(f"{met[name, guarantee]:,}" for guarantee in GUARANTEES)
        rows.append(f"| {name.replace('_', ' ')} | {times[name]:,} | {counts} |")
    return "\n".join(rows)
