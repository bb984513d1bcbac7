"""Randomly made clients: they ask for nothing that the brokers of a history must refuse."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.record.records import encode_batch
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.history.events import RecordId
from kafkalite.testing.simulation.clients.producer import Producer
from kafkalite.testing.simulation.clients.records import record_of
from kafkalite.testing.simulation.workload import CLIENTS

SMALLEST_SEGMENT = {"orders": 3_000, "balances": 2_500}


@pytest.mark.parametrize("kind", ["idempotent", "plain", "hasty", "keyed"])
def test_every_batch_fits_in_a_segment(kind: str) -> None:
    """One that does not is refused with RECORD_LIST_TOO_LARGE, for good."""
    host: Any = SimpleNamespace(clock=ManualClock(), rng=random.Random(1), bootstrap=())
    for seed in range(100):
        producer = CLIENTS[kind].make(host, f"{kind}-10", random.Random(seed))
        assert isinstance(producer, Producer)
        settings = producer.settings
        record = record_of(RecordId(settings.name, 9_999), 1, b"k10", settings.padding)
        size = len(encode_batch([record] * settings.sender.batch_records))
        assert size <= SMALLEST_SEGMENT[settings.topics[0]], settings
