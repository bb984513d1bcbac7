"""What the collectors say of parts whose state the test knows."""

from __future__ import annotations

from typing import Any, cast

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.recent_times import RecentTimes
from kafkalite.common.types import TopicPartition
from kafkalite.controller.controller_context import ControllerContext
from kafkalite.controller.controller_stats import ControllerStats, controller_state
from kafkalite.controller.events import (
    AutoRebalance,
    BrokerChange,
    Elect,
    Event,
    IsrChange,
    LogDirEvent,
    PartitionReassignment,
    PreferredReplicaElection,
    Reload,
    ResumeDeletions,
    TopicChange,
    TopicDeletionRequested,
    UncleanElectionAllowed,
)
from kafkalite.controller.states import ReplicaState
from kafkalite.metrics.collectors import DEFINITIONS
from kafkalite.metrics.controller_metrics import ControllerMetricsCollector
from kafkalite.metrics.conversion_metrics import ConversionMetricsCollector
from kafkalite.metrics.definitions import Collector, MetricKind
from kafkalite.metrics.request_metrics import RequestMetricsCollector
from kafkalite.metrics.socket_server_metrics import SocketServerMetricsCollector
from kafkalite.network.request import RequestTimes
from kafkalite.network.request_metrics import RequestChannelMetrics
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.messages import message_name
from kafkalite.record.convert import RecordConversionStats
from kafkalite.replication.broker_topic_stats import BrokerTopicStats
from tests.network.fakes import Harness, echo, frame

Values = dict[tuple[str, ...], float]
RATES = ("creation_rate", "close_rate")


def values(collector: Collector) -> Values:
    """``(name, *labels)`` or ``(name, *labels, quantile)`` → value."""
    return {
        (sample.metric.name, *sample.labels, *filter(None, [sample.quantile])): sample.value
        for piece in collector.collect()
        for sample in piece
    }


def test_no_two_metrics_have_the_same_name_and_each_says_what_it_means() -> None:
    names = [metric.name for metric in DEFINITIONS]
    assert len(set(names)) == len(names)
    assert all(metric.meaning.endswith(".") for metric in DEFINITIONS)
    # The JMX exporter writes these for meters.
    assert all(not metric.name.endswith(("persec", "_total", "_count")) for metric in DEFINITIONS[:10])


def test_names_of_apis_are_those_of_kafka() -> None:
    assert [message_name(key) for key in (ApiKey.PRODUCE, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.LEADER_AND_ISR)] == [
        "Produce",
        "OffsetForLeaderEpoch",
        "LeaderAndIsr",
    ]


def test_requests_are_counted_by_version_and_fetch_is_the_sum_of_consumers_and_followers() -> None:
    metrics = RequestChannelMetrics([(ApiKey.FETCH, 17), (ApiKey.PRODUCE, 11)])
    for api, count in ((metrics.apis[ApiKey.FETCH], 2), (metrics.followers, 3)):
        api.versions[12] = count
        api.failed = 1
        api.errors = {ErrorCode.NOT_LEADER_OR_FOLLOWER: 2}
        for _ in range(count):
            timed = RequestTimes(10.0, 10.001, 100, api.latest)
            timed.processed, timed.answered, timed.throttled = 10.003, 10.007, 0.5
            timed.finish(10.015)
    found = values(RequestMetricsCollector(metrics))
    prefix = "kafka_network_requestmetrics_"
    assert {key[1:]: value for key, value in found.items() if key[0] == prefix + "requests"} == {
        ("Fetch", "12"): 5,
        ("Fetch", "17"): 0,
        ("FetchConsumer", "12"): 2,
        ("FetchConsumer", "17"): 0,
        ("FetchFollower", "12"): 3,
        ("FetchFollower", "17"): 0,
        ("Produce", "11"): 0,
    }
    assert {key[1:]: value for key, value in found.items() if key[0] == prefix + "errors" and value} == {
        ("Fetch", "NONE"): 3,
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"): 4,
        ("FetchConsumer", "NONE"): 1,
        ("FetchConsumer", "NOT_LEADER_OR_FOLLOWER"): 2,
        ("FetchFollower", "NONE"): 2,
        ("FetchFollower", "NOT_LEADER_OR_FOLLOWER"): 2,
    }
    assert found[(prefix + "errors", "Produce", "UNKNOWN_SERVER_ERROR")] == 0
    times = {
        name: round(found[(prefix + name, "Fetch", "0.99")], 6)
        for name in (
            *("totaltimems", "requestqueuetimems", "localtimems", "remotetimems", "throttletimems"),
            *("responsequeuetimems", "responsesendtimems", "requestbytes"),
        )
    }
    assert list(times.values()) == [15.0, 1.0, 2.0, 4.0, 500.0, 0.0, 8.0, 100.0]
    assert found[(prefix + "totaltimems", "Produce", "0.99")] == 0


class FakeController:
    def __init__(self, context: ControllerContext | None) -> None:
        self.context = context
        self.queued = 4
        self.stats = ControllerStats()
        self.stats.handled(BrokerChange(), 0.002, 0.5)
        self.unclean_elections = 0
        self.waiting_requests = {1: 0, 2: 3}
        self.handling: Event | None = None
        self.request_queue_times = {2: RecentTimes()}
        self.request_queue_times[2].add(0.25)


def test_only_the_active_controller_counts_the_cluster() -> None:
    idle = values(ControllerMetricsCollector(cast("Any", FakeController(None))))
    queue = "kafka_controller_controllereventmanager_eventqueuesize"
    stats = "kafka_controller_controllerstats_"
    assert idle[(queue,)] == 4
    assert idle[("kafka_controller_controllereventmanager_eventqueuetimems", "0.99")] == 2
    assert (idle[(stats + "leaderelectionrateandtimems",)], idle[(stats + "topicchangerateandtimems",)]) == (1, 0)
    assert idle[(stats + "leaderelectionrateandtimems", "0.50")] == 500
    assert idle[("kafka_controller_controllerchannelmanager_totalqueuesize",)] == 3
    sent = "kafka_controller_controllerchannelmanager_requestrateandqueuetimems"
    assert (idle[(sent, "2")], idle[(sent, "2", "0.50")]) == (1, 250)

    context = ControllerContext()
    for partition, leader in enumerate((1, 2, -1)):
        tp = TopicPartition("t", partition)
        context.states[tp] = LeaderAndIsr(
            "t", partition, leader=leader, leader_epoch=0, isr=(1, 2), assignment=PartitionAssignment((1, 2))
        )
        if leader < 0:
            context.leaderless.add(tp)
    going = LeaderAndIsr("going", 0, leader=1, isr=(1,), assignment=PartitionAssignment((1, 2)))
    context.states[going.topic_partition] = going
    context.leaderless.add(TopicPartition("gone", 0))
    context.deleting = {"gone": "a replica is on a dead broker", "going": ""}
    context.replica_states[going.topic_partition] = {
        1: ReplicaState.DELETION_STARTED,
        2: ReplicaState.DELETION_INELIGIBLE,
    }
    active = values(ControllerMetricsCollector(cast("Any", FakeController(context))))
    prefix = "kafka_controller_kafkacontroller_"
    assert {
        key[0].removeprefix(prefix): value
        for key, value in active.items()
        if value and (key[0].startswith(prefix) or key[0] == queue)
    } == {
        "activecontrollercount": 1,
        "offlinepartitionscount": 1,
        "preferredreplicaimbalancecount": 2,
        "globalpartitioncount": 4,
        "topicstodeletecount": 2,
        "topicsineligibletodeletecount": 1,
        "replicastodeletecount": 2,
        "replicasineligibletodeletecount": 1,
        queue: 4,
    }


def test_connections_and_idle_time() -> None:
    harness = Harness()
    sock, connection = harness.client()
    harness.server.failed_authentications.totals["SASL_SSL"] = 1
    times = iter([(100.0, 7.0), (110.0, 8.0), (120.0, 18.5)])
    now: list[tuple[float, float]] = []

    def monotonic() -> float:
        now.append(next(times))
        return now[-1][0]

    collector = SocketServerMetricsCollector(harness.server, monotonic, lambda: now[-1][1])
    harness.client()
    harness.receive(sock, connection, frame(1))
    found = values(collector)
    rates = [("kafka_server_socket_server_metrics_connection_" + each, "PLAINTEXT") for each in RATES]
    assert [found[rate] for rate in rates] == [0.1, 0.0], "one connection in ten seconds is new"
    assert found[("kafka_server_socket_server_metrics_connection_count", "PLAINTEXT")] == 2
    assert found[("kafka_server_socket_server_metrics_connection_creation", "PLAINTEXT")] == 2
    assert found[("kafka_server_socket_server_metrics_connection_close", "PLAINTEXT")] == 0
    assert found[("kafka_network_socketserver_memorypoolused",)] == harness.server.memory.held > 0
    assert found[("kafka_network_requestchannel_requestqueuesize",)] == 1
    idle = ("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",)
    assert found[idle] == 0.9
    connection.close("the client left")
    later = values(SocketServerMetricsCollector(harness.server))
    assert later[("kafka_server_socket_server_metrics_connection_count", "PLAINTEXT")] == 1
    assert later[("kafka_server_socket_server_metrics_connection_creation", "PLAINTEXT")] == 2
    assert later[("kafka_server_socket_server_metrics_connection_close", "PLAINTEXT")] == 1
    # A reactor that used more CPU than there was time is not idle at all.
    found = values(collector)
    assert found[idle] == 0.0
    assert [found[rate] for rate in rates] == [0.0, 0.1], "and one in the next ten has ended"


def test_bytes_requests_and_answers_are_those_of_all_connections() -> None:
    harness = Harness()
    names = ("incoming_byte", "outgoing_byte", "request", "response", "expired_connections_killed_count")

    def totals() -> list[float]:
        found = values(SocketServerMetricsCollector(harness.server))
        return [found[("kafka_server_socket_server_metrics_" + name, "PLAINTEXT")] for name in names]

    sock, connection = harness.client()
    assert totals() == [0, 0, 0, 0, 0]
    incoming = frame(1, b"body") + frame(2, b"other body")
    harness.receive(sock, connection, incoming)
    assert totals() == [len(incoming), 0, 0, 2, 0], "two requests came, which Kafka calls responses"
    first, second = harness.handler.requests
    second.respond([b"later"])
    assert totals()[1:3] == [0, 0], "it waits for the answer to the first"
    first.respond_nothing()
    harness.reactor.turn()
    assert totals() == [len(incoming), len(sock.sent), 1, 2, 0]
    connection.close("the client left")
    harness.handler.answer = echo
    other, connection = harness.client()
    harness.receive(other, connection, frame(3))
    assert totals() == [len(incoming) + len(frame(3)), len(sock.sent) + len(other.sent), 2, 3, 0]
    harness.server.totals.expired.update(PLAINTEXT=2, SASL_SSL=3)
    found = values(SocketServerMetricsCollector(harness.server))
    assert found[("kafka_network_socketserver_expiredconnectionskilledcount",)] == 5


def test_a_gauge_says_which_event_the_controller_handles() -> None:
    controller = FakeController(None)
    collector = ControllerMetricsCollector(cast("Any", controller))
    state = ("kafka_controller_kafkacontroller_controllerstate",)
    controller.handling = BrokerChange()
    assert values(collector)[state] == 2
    controller.handling = None
    assert values(collector)[state] == 0
    # The numbers of kafka.controller.ControllerState.
    expected = (
        *((Elect(), 1), (Reload(), 1), (BrokerChange(), 2), (TopicChange(), 3), (TopicDeletionRequested(), 4)),
        *((ResumeDeletions(), 4), (PartitionReassignment(), 5), (AutoRebalance(), 6)),
        *((PreferredReplicaElection(), 7), (IsrChange(), 9), (LogDirEvent(), 11), (UncleanElectionAllowed(), 13)),
    )
    assert [controller_state(event) for event, _ in expected] == [number for _, number in expected]


def test_conversions_are_shown_by_request() -> None:
    stats = BrokerTopicStats()
    collector = ConversionMetricsCollector(stats)
    prefix = "kafka_network_requestmetrics_"
    time, memory = prefix + "messageconversionstimems", prefix + "temporarymemorybytes"
    empty = values(collector)
    assert [empty[(time, request)] for request in ("Produce", "Fetch")] == [0, 0]
    stats.fetch_conversions.add(RecordConversionStats(10, 4000, 0.25))
    stats.fetch_conversions.add(RecordConversionStats(1, 300, 0.5))
    found = values(collector)
    assert (found[(time, "Fetch")], found[(memory, "Fetch")], found[(time, "Produce")]) == (2, 2, 0)
    assert (found[(time, "Fetch", "0.99")], found[(memory, "Fetch", "0.99")]) == (500, 4000)


def test_every_kind_of_metric_is_used() -> None:
    assert {metric.kind for metric in DEFINITIONS} == set(MetricKind)
