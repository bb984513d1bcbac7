"""Quotas as the page shows them."""

from __future__ import annotations

from kafkalite.common.principals import KafkaPrincipal
from kafkalite.metrics.quota_metrics import QuotaMetricsCollector
from kafkalite.security.client_quotas import ClientQuotas
from tests.metrics.test_collectors import values

ALICE = KafkaPrincipal("User", "alice")
RATE = ("kafka_server_produce_byte_rate", "alice", "c")
THROTTLE = ("kafka_server_produce_throttle_time", "alice", "c")


def test_rate_and_throttle_time_are_shown_while_the_client_has_a_quota() -> None:
    quotas = ClientQuotas()
    now = [1000.0]
    collector = QuotaMetricsCollector(quotas, lambda: now[0])
    assert values(collector) == {}

    quotas.update("users/alice/clients/c", {"producer_byte_rate": "100"})
    usage = quotas.usage(ALICE, "c").produce
    assert usage is not None
    assert usage.record(500, now[0] * 1000) == 0
    # What waits to be added to the windows counts as well.
    assert usage.record(250, now[0] * 1000) == 0
    assert values(collector) == {RATE: 75.0, THROTTLE: 0}

    throttled = usage.record(750, now[0] * 1000)
    assert throttled > 0
    assert values(collector) == {RATE: 150.0, THROTTLE: throttled}

    now[0] += 20
    assert values(collector) == {RATE: 0.0, THROTTLE: 0}
    quotas.update("users/alice/clients/c", {})
    assert values(collector) == {}
