"""Options: what Spark's source takes, and what it refuses in which words."""

from __future__ import annotations

import pickle

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.spark.offsets import EARLIEST, LATEST, ByTime, Everywhere, Limit, Specific
from kafkalite.spark.options import OptionError, SourceOptions, TopicSelection, includes_headers

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
T0 = TopicPartition("t", 0)


def parse(streaming: bool = False, **options: str) -> SourceOptions:
    more = {name.replace("__", "."): value for name, value in options.items()}
    return SourceOptions.parse(BASE | more, streaming=streaming)


def test_defaults_of_batch_and_stream() -> None:
    batch, stream = parse(), parse(streaming=True)
    assert (batch.start, batch.end) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert (stream.start, stream.end) == (Everywhere(LATEST), Everywhere(LATEST))
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert batch.topics == TopicSelection(names=("t",))
    assert batch.client.bootstrap_servers == (("h", 1),)
    assert batch.client.isolation_level == "read_uncommitted"
    assert (batch.poll_timeout_ms, batch.max_trigger_delay_ms) == (120_000, 900_000)


def test_names_in_any_case() -> None:
    options = SourceOptions.parse(
        {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBE": "t", "FailOnDataLoss": "FALSE", "minpartitions": "3"},
        streaming=False,
    )
    assert not options.fail_on_data_loss
    assert options.min_partitions == 3
    assert includes_headers({"IncludeHeaders": "True"})


@pytest.mark.parametrize(
    ("name", "value", "topics"),
    [
        ("subscribe", " a, b ,,c", TopicSelection(names=("a", "b", "c"))),
        ("subscribePattern", " a.* ", TopicSelection(pattern="a.*")),
        ("assign", '{"a":[0,2]}', TopicSelection(partitions=(TopicPartition("a", 0), TopicPartition("a", 2)))),
    ],
)
def test_strategies(name: str, value: str, topics: TopicSelection) -> None:
    options = {"kafka.bootstrap.servers": "h:1", name: value}
    assert SourceOptions.parse(options, streaming=False).topics == topics


@pytest.mark.parametrize(
    ("options", "start", "end"),
    [
        ({"startingOffsets": "Earliest", "endingOffsets": " latest "}, Everywhere(EARLIEST), Everywhere(LATEST)),
        (
            {"startingOffsets": '{"t":{"0":-2}}', "endingOffsets": '{"t":{"0":9}}'},
            Specific({T0: -2}),
            Specific({T0: 9}),
        ),
        ({"startingTimestamp": "5", "endingTimestamp": "9"}, ByTime(5, {}), ByTime(9, {})),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5}}'}, ByTime(None, {T0: 5}), Everywhere(LATEST)),
        # A timestamp for all goes before timestamps, and these go before offsets.
        (
            {"startingTimestamp": "5", "startingOffsetsByTimestamp": "{"},
            ByTime(5, {}),
            None,
        ),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5}}', "startingOffsets": "latest"}, ByTime(None, {T0: 5}), None),
        (
            {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "LATEST"},
            ByTime(5, {}, latest_if_none=True),
            None,
        ),
    ],
)
def test_limits(options: dict[str, str], start: Limit, end: Limit | None) -> None:
    found = SourceOptions.parse(BASE | options, streaming=False)
    assert found.start == start
    assert end is None or found.end == end


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({"assign": "{}"}, "Only one of the following options can be specified for Kafka source: "),
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest for batch queries on Kafka"),
        ({"startingOffsets": "first"}, "Expected e.g. .*topicA.*, got first"),
        ({"startingTimestamp": "now"}, "Expected a single long value, got now"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "must be 'error' or 'latest'"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"minPartitions": "x"}, "minPartitions is 'x': not a number"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe': it must be 'true' or 'false'"),
        ({"kafka.auto.offset.reset": "earliest"}, "Kafka option 'auto.offset.reset' is not supported. Instead set"),
        ({"kafka.key.deserializer": "x"}, "Kafka option 'key.deserializer' is not supported"),
        ({"kafka.value.deserializer": "x"}, "Kafka option 'value.deserializer' is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported.$"),
        ({"kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported.$"),
        ({"kafka.bootstrap.servers": "h"}, "Invalid url in kafka.bootstrap.servers: h "),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, r"minOffsetPerTrigger\(5\) is higher than"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon': a time is meant"),
    ],
)
def test_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SourceOptions.parse(BASE | options, streaming=False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(OptionError, match="not valid in streaming queries"):
        SourceOptions.parse(BASE | {name: "5"}, streaming=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "t"}, "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"),
        ({"kafka.bootstrap.servers": "h:1"}, "One of the following options must be specified for Kafka source: "),
        ({"kafka.bootstrap.servers": "h:1", "assign": "t"}, "No topicpartitions to assign"),
        ({"kafka.bootstrap.servers": "h:1", "assign": "{"}, "Expected e.g. "),
        ({"kafka.bootstrap.servers": "h:1", "subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"kafka.bootstrap.servers": "h:1", "subscribePattern": "("}, "no regular expression"),
    ],
)
def test_missing(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SourceOptions.parse(options, streaming=False)


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", 900_000), ("30s", 30_000), ("500ms", 500), ("7", 7), ("2 h", 7_200_000)]
)
def test_durations(text: str, ms: int) -> None:
    assert parse(streaming=True, maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_options_travel_and_keep_secrets_from_logs() -> None:
    options = parse(
        kafka__security__protocol="SASL_SSL",
        kafka__sasl__mechanism="PLAIN",
        kafka__sasl__jaas__config='x.PlainLoginModule required username="u" password="secret";',
        kafka__ssl__key__password="secret",
    )
    assert pickle.loads(pickle.dumps(options)) == options
    assert "secret" not in repr(options)
    assert hash(options.client) == hash(pickle.loads(pickle.dumps(options)).client)
