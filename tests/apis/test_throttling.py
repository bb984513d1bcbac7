"""Throttled requests: the throttle time in the answer, the muted connection, the empty fetch."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import Api
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.common.types import TopicPartition
from kafkalite.network.request import Request
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.fetch import decode_fetch_response, encode_fetch_request
from kafkalite.protocol.frames import RequestHeader
from kafkalite.protocol.produce import ProduceRequest, encode_produce

from .helpers import FakeBroker
from .test_fetch import T0, T1, ask, batch, data_of, has_records

PRODUCED = 100_000


def produce(broker: FakeBroker, version: int = 9, acks: int = 1, client: str | None = "client") -> None:
    """A Produce request that counts as :data:`PRODUCED` bytes."""
    produced = ProduceRequest(None, acks, 500, [(T0, memoryview(batch()))])
    body = bytearray(b"".join(bytes(part) for part in encode_produce(version, produced)))
    header = RequestHeader(ApiKey.PRODUCE, version, 1, cast("Any", client))
    broker.dispatcher.handle(Request(header, memoryview(body), cast("Any", broker.connection), 0.0, PRODUCED))


def limited(**quotas: str) -> FakeBroker:
    broker = FakeBroker()
    broker.services.quotas.update("clients/client", quotas)
    return broker


@pytest.mark.parametrize("version", [1, 3, 9, 11])
def test_a_producer_above_its_rate_is_told_and_muted(version: int) -> None:
    broker = limited(producer_byte_rate="5000")
    produce(broker, version)
    # (10,000 - 5,000) / 5,000 of the 10 s that were measured.
    assert broker.connection.muted == [10.0]
    plain = FakeBroker()
    produce(plain, version)
    tagged = 1 if version >= 9 else 0
    throttled, free = broker.take(), plain.take()
    position = len(free) - 4 - tagged
    assert throttled == free[:position] + (10_000).to_bytes(4, "big") + free[position + 4 :]


def test_a_producer_below_its_rate_and_other_clients_are_not_throttled() -> None:
    broker = limited(producer_byte_rate="10000")
    produce(broker)
    produce(broker, client="other")
    produce(broker, client="other")
    produce(broker, client=None)
    assert broker.connection.muted == []


def test_a_quota_that_changes_counts_for_open_connections_at_once() -> None:
    broker = limited(producer_byte_rate="10000")
    produce(broker)
    broker.services.quotas.update("clients/client", {"producer_byte_rate": "5000"})
    produce(broker, client="other")
    assert broker.connection.muted == []
    produce(broker)
    # 200,000 bytes over 10 s are 20,000 a second: 30 s later they are 5,000.
    assert broker.connection.muted == [30.0]
    broker.services.quotas.update("clients/client", {})
    produce(broker)
    assert broker.connection.muted == [30.0]


def test_a_connection_counts_for_the_principal_that_it_has_now() -> None:
    broker = FakeBroker()
    broker.services.quotas.update("users/alice", {"producer_byte_rate": "5000"})
    produce(broker)
    broker.connection.info.principal = KafkaPrincipal.user("alice")
    produce(broker)
    assert broker.connection.muted == [10.0]
    broker.connection.info.principal = KafkaPrincipal.user("bob")
    produce(broker)
    assert broker.connection.muted == [10.0]


def test_a_producer_without_answers_is_muted_all_the_same() -> None:
    broker = limited(producer_byte_rate="5000")
    produce(broker, acks=0)
    assert broker.connection.answers == [None]
    assert broker.connection.muted == [10.0]


def test_a_fetch_asks_for_no_more_than_a_consumer_may_ever_get() -> None:
    broker = limited(consumer_byte_rate="10")
    ask_session(broker, T0)
    params, _ = broker.replicas.fetches[0]
    assert (params.max_bytes, params.min_bytes) == (100, 1)


def test_an_incremental_fetch_that_is_throttled_says_later_what_it_did_not_say() -> None:
    broker = limited(consumer_byte_rate="1000")
    opened = ask_session(broker, T0, T1)
    assert opened.throttle_ms == 0
    broker.replicas.results = {T0: has_records(T0, bytes(30_000)), T1: has_records(T1, b"tiny")}
    throttled = ask_session(broker, T0, T1, session_id=opened.session_id, session_epoch=1)
    assert throttled.throttle_ms > 0
    assert (throttled.session_id, throttled.partitions) == (opened.session_id, [])
    assert broker.connection.muted == [throttled.throttle_ms / 1000]
    broker.replicas.results = {T0: has_records(T0, b"less"), T1: has_records(T1, b"tiny")}
    later = ask_session(broker, session_id=opened.session_id, session_epoch=2)
    assert later.throttle_ms == 0, "what was throttled was not recorded"
    assert {p.partition: data_of(p.records) for p in later.partitions} == {0: b"less", 1: b"tiny"}


def test_a_session_whose_first_answer_is_throttled_does_not_begin() -> None:
    broker = limited(consumer_byte_rate="1000")
    broker.replicas.results = {T0: has_records(T0, bytes(30_000))}
    throttled = ask_session(broker, T0)
    assert throttled.throttle_ms > 0
    assert (throttled.session_id, throttled.partitions) == (0, [])
    assert len(broker.dispatcher.fetch.sessions) == 0


def test_followers_are_never_throttled() -> None:
    broker = limited(consumer_byte_rate="1", request_percentage="0.001")
    broker.replicas.results = {T0: has_records(T0, bytes(30_000))}
    broker.send(ApiKey.FETCH, 12, encode_fetch_request(12, ask(T0, replica_id=2)))
    found = decode_fetch_response(12, memoryview(broker.take()))
    assert found.throttle_ms == 0
    assert len(data_of(found.partitions[0].records)) == 30_000
    assert broker.replicas.fetches[0][0].max_bytes == 1 << 20
    assert broker.connection.muted == []


def ask_session(broker: FakeBroker, *partitions: TopicPartition, **fields: Any) -> Any:
    request = ask(*partitions, **{"session_epoch": 0, **fields})
    broker.send(ApiKey.FETCH, 12, encode_fetch_request(12, request))
    return decode_fetch_response(12, memoryview(broker.take()))


def slow(broker: FakeBroker, key: ApiKey, seconds: float) -> None:
    """From now on the broker needs that time to handle a request of ``key``."""
    served = broker.dispatcher._served
    api = served[int(key)]

    def handler(context: RequestContext, request: object) -> object:
        broker.clock.advance(seconds)
        return api.handler(context, request)

    served[int(key)] = Api(api.versions, handler)


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (ApiKey.METADATA, 9, {"topics": None}),
        (ApiKey.METADATA, 3, {"topics": None}),
        (ApiKey.API_VERSIONS, 1, {}),
        (ApiKey.API_VERSIONS, 4, {"client_software_name": "a", "client_software_version": "1"}),
        (ApiKey.FIND_COORDINATOR, 3, {"key": "group", "key_type": 0}),
        (ApiKey.LIST_OFFSETS, 6, {"topics": []}),
        # Answered later, from ZooKeeper.
        (ApiKey.DESCRIBE_CONFIGS, 3, {"resources": []}),
        # Refused.
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None, "timeout_ms": 1}),
    ],
)
def test_the_time_of_a_request_counts_for_request_percentage(key: ApiKey, version: int, fields: dict[str, Any]) -> None:
    broker = FakeBroker()
    broker.controller.is_active = False
    plain = broker.call(key, version, **fields)
    broker.services.quotas.update("clients/client", {"request_percentage": "1"})
    slow(broker, key, 0.103)
    # The time before the broker turned to the request does not count.
    broker.clock.advance(100.0)
    throttled = broker.call(key, version, **fields)
    # 10.3 % of a second in the 10 s that were measured are 1.03 % of the broker: 3 % too much of 10.103 s.
    assert throttled.throttle_time_ms == pytest.approx(300, abs=10)
    assert broker.connection.muted == [throttled.throttle_time_ms / 1000]
    throttled.throttle_time_ms = 0
    assert throttled == plain


def test_a_greedy_client_keeps_its_percentage_of_the_time() -> None:
    """Each request takes 13 ms; what is measured are 30 s after four times Kafka's eleven windows."""
    broker = limited(request_percentage="2")
    slow(broker, ApiKey.METADATA, 0.013)
    begun, requests = broker.clock.monotonic() + 44, 0
    while broker.clock.monotonic() < begun + 30:
        broker.call(ApiKey.METADATA, 9, topics=None)
        requests += broker.clock.monotonic() >= begun
        broker.clock.advance(sum(broker.connection.muted))
        broker.connection.muted.clear()
    assert requests * 0.013 / 30 == pytest.approx(0.02, rel=0.1)


def test_requests_in_a_version_without_a_throttle_time_are_throttled_all_the_same() -> None:
    broker = limited(request_percentage="1")
    slow(broker, ApiKey.METADATA, 0.5)
    broker.call(ApiKey.METADATA, 1, topics=None)
    # At most one window.
    assert broker.connection.muted == [1.0]


def test_the_time_in_which_a_request_waits_does_not_count() -> None:
    broker = limited(request_percentage="1")
    broker.replicas.hold = True
    produce(broker, acks=-1)
    broker.clock.advance(3.0)
    broker.replicas.held[0]()
    assert broker.connection.muted == []


def test_a_slow_fetch_is_throttled_by_its_time() -> None:
    broker = limited(request_percentage="1")
    fetch = broker.replicas.fetch

    def slow_fetch(*args: Any) -> None:
        broker.clock.advance(0.5)
        fetch(*args)

    cast("Any", broker.replicas).fetch = slow_fetch
    broker.replicas.results = {T0: has_records(T0, b"data")}
    assert ask_session(broker, T0).throttle_ms == 1000
    assert broker.connection.muted == [1.0]
