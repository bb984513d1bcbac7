"""The leader in each leader epoch.

Answers to: nothing in Kafka; the leaders' part of the history checker. Pure.
"""

from __future__ import annotations

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import Led
from kafkalite.testing.history.logs import Logs
from kafkalite.testing.history.producers import NOWHERE, Producers


class Leaders:
    """All observed leaders."""

    def __init__(self, breaches: Breaches) -> None:
        self._breaches = breaches
        self._known: dict[tuple[str, int], int] = {}

    def led(self, event: Led) -> None:
        known = self._known.setdefault((event.partition, event.leader_epoch), event.broker)
        if known != event.broker:
            self._breaches.add(
                Rule.ONE_LEADER,
                f"{event.partition}: brokers {known} and {event.broker} both lead in epoch {event.leader_epoch}",
            )

    def check(self, producers: Producers, logs: Logs) -> None:
        """Check the acknowledgements with a known broker against the leaders."""
        for record, sending in producers.records.items():
            if sending.broker < 0 or sending.offset == NOWHERE:
                continue
            epoch = sending.leader_epoch
            if epoch < 0:
                epoch = logs.epoch_at(sending.partition, sending.offset)
            if epoch < 0:
                continue
            known = self._known.setdefault((sending.partition, epoch), sending.broker)
            if known != sending.broker:
                self._breaches.add(
                    Rule.ONE_LEADER,
                    f"{record} in {sending.partition} at offset {sending.offset}: broker {sending.broker} acknowledged "
                    f"it in epoch {epoch}, in which broker {known} leads",
                )
