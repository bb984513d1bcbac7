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


def test_mutations_are_shown_with_the_tokens_that_are_left() -> None:
    quotas = ClientQuotas()
    now = [1000.0]
    collector = QuotaMetricsCollector(quotas, lambda: now[0])
    names = ("tokens", "mutation_rate", "throttle_time")
    keys = [("kafka_server_controllermutation_" + name, "alice", "") for name in names]

    def shown() -> list[float]:
        found = values(collector)
        return [found[key] for key in keys]

    quotas.update("users/alice", {"controller_mutation_rate": "10"})
    assert values(collector) == {}, "the client has not used it"
    quota = quotas.mutations.quota("alice", "c", int(now[0] * 1000), is_strict=False)
    quota.record(50, int(now[0] * 1000))
    # Full: 10 a second over eleven windows.
    assert shown() == [60, 5, 0]
    quota.record(80, int(now[0] * 1000))
    assert shown() == [-20, 13, 2000]
    assert shown() == [-20, 13, 2000], "a look changes nothing"
    now[0] += 3
    assert shown()[0] == 10
    now[0] += 20
    assert shown() == [110, 0, 0]
