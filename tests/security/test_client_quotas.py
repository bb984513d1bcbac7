"""The quotas of clients follow /config."""

from __future__ import annotations

import logging

import pytest

from kafkalite.common.principals import ANONYMOUS, KafkaPrincipal
from kafkalite.security.client_quotas import ClientQuotas


def used(quotas: ClientQuotas, user: str, client_id: str) -> int:
    usage = quotas.usage(KafkaPrincipal.user(user), client_id).produce
    return 0 if usage is None else usage.record(100_000, 1000)


def test_quotas_are_active_while_a_client_has_one() -> None:
    quotas = ClientQuotas()
    seen = [quotas.is_active]
    for path, overrides in (
        ("users/alice", {"SCRAM-SHA-256": "salt=eA==,stored_key=eA==,server_key=eA==,iterations=4096"}),
        ("clients/<default>", {"request_percentage": "10"}),
        ("users/alice", {"producer_byte_rate": "1"}),
        ("users/alice", {}),
        ("clients/<default>", {}),
    ):
        quotas.update(path, overrides)
        seen.append(quotas.is_active)
    assert seen == [False, False, True, True, True, False]


@pytest.mark.parametrize(
    ("path", "user", "client_id"),
    [
        ("users/alice", "alice", "any"),
        ("users/a%40b", "a@b", "any"),
        ("users/alice/clients/c%2A", "alice", "c*"),
        ("users/<default>", "anyone", "any"),
        ("users/<default>/clients/<default>", "anyone", "any"),
        ("clients/c1", "ANONYMOUS", "c1"),
        ("clients/<default>", "ANONYMOUS", ""),
    ],
)
def test_the_quota_of_a_path_holds_for_its_clients(path: str, user: str, client_id: str) -> None:
    quotas = ClientQuotas()
    quotas.update(path, {"producer_byte_rate": "1000"})
    assert used(quotas, user, client_id) == 90_000
    assert quotas.usage(KafkaPrincipal.user(user), client_id).fetch is None
    quotas.update(path, {"producer_byte_rate": "50000"})
    assert used(quotas, user, client_id) == 0


@pytest.mark.parametrize("text", ["fast", "0", "-1", "nan", ""])
def test_a_wrong_value_leaves_the_quota_as_it_was(text: str, caplog: pytest.LogCaptureFixture) -> None:
    quotas = ClientQuotas()
    quotas.update("clients/c1", {"producer_byte_rate": "1000", "consumer_byte_rate": "5"})
    with caplog.at_level(logging.ERROR):
        quotas.update("clients/c1", {"producer_byte_rate": text})
    (message,) = caplog.messages
    assert message.startswith("/config/clients/c1: producer_byte_rate")
    assert used(quotas, "ANONYMOUS", "c1")
    assert quotas.usage(ANONYMOUS, "c1").fetch is None


def test_clients_that_were_silent_for_long_are_forgotten() -> None:
    quotas = ClientQuotas()
    quotas.update("clients/<default>", {"producer_byte_rate": "1000"})
    for number in range(100):
        usage = quotas.usage(ANONYMOUS, f"c{number}").produce
        assert usage is not None
        usage.record(1, 1000)
    quotas.tidy(1000 + 3_500_000)
    assert len(quotas.produce) == 100
    generation = quotas.generation
    quotas.tidy(1000 + 4_200_000)
    assert len(quotas.produce) == 0
    assert quotas.generation is not generation, "connections keep no usage that is not measured any more"
