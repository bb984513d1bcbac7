"""What the collectors say of parts whose state the test knows."""

from __future__ import annotations

from typing import Any, cast

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.controller.controller_context import ControllerContext
from kafkalite.controller.controller_stats import ControllerStats
from kafkalite.controller.events import BrokerChange
from kafkalite.metrics.collectors import DEFINITIONS
from kafkalite.metrics.controller_metrics import ControllerMetricsCollector
from kafkalite.metrics.definitions import Collector, MetricKind
from kafkalite.metrics.request_metrics import RequestMetricsCollector
from kafkalite.metrics.socket_server_metrics import SocketServerMetricsCollector
from kafkalite.network.request import RequestTimes
from kafkalite.network.request_metrics import RequestChannelMetrics
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.messages import message_name
from tests.network.fakes import Harness, frame

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


def test_only_the_active_controller_counts_the_cluster() -> None:
    idle = values(ControllerMetricsCollector(cast("Any", FakeController(None))))
    queue = "kafka_controller_controllereventmanager_eventqueuesize"
    stats = "kafka_controller_controllerstats_"
    assert idle[(queue,)] == 4
    assert idle[("kafka_controller_controllereventmanager_eventqueuetimems", "0.99")] == 2
    assert (idle[(stats + "leaderelectionrateandtimems",)], idle[(stats + "topicchangerateandtimems",)]) == (1, 0)
    assert idle[(stats + "leaderelectionrateandtimems", "0.50")] == 500
    assert idle[("kafka_controller_controllerchannelmanager_totalqueuesize",)] == 3

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


def test_every_kind_of_metric_is_used() -> None:
    assert {metric.kind for metric in DEFINITIONS} == set(MetricKind)
