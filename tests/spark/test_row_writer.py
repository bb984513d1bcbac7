"""A task's rows on their way: which partitions, when they are sent, and what a bad row says."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.record.batch import iter_headers
from kafkalite.record.records import iter_records
from kafkalite.spark import row_writer
from kafkalite.spark.client.cluster import ClusterConnections, TopicState
from kafkalite.spark.client.errors import KafkaClientError
from kafkalite.spark.client.transactions import InitializedProducer
from kafkalite.spark.errors import KafkaWriteError
from kafkalite.spark.options import OptionError
from kafkalite.spark.row_writer import RowWriter
from kafkalite.spark.sink_options import SinkOptions
from kafkalite.spark.source import KafkaliteDataSource
from kafkalite.spark.writers import BatchWriter, check_schema
from tests.spark.client.stand_ins import CONFIG

WHO = InitializedProducer("x", 7, 1)
OPTIONS = {"kafka.bootstrap.servers": "h:1", "topic": "t", "kafka.retry.backoff.ms": "0"}


class Sent:
    """Stands for the sender; ``batches`` are what it was given."""

    def __init__(self, *given: Any) -> None:
        self.given = given
        self.batches: list[tuple[TopicPartition, list[bytes | None]]] = []
        self.flushed = False
        self.trouble: Exception | None = None
        Sent.last = self

    last: Sent

    def send(self, partition: TopicPartition, count: int, seal: Callable[[int], memoryview]) -> None:
        data = seal(5)
        ((pos, header),) = iter_headers(data)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 5)
        assert header.is_transactional
        values = [record.value for record in iter_records(data, header, pos)]
        assert len(values) == count
        self.batches.append((partition, values))

    def flush(self) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.flushed = True

    def close(self) -> None:
        self.batches.clear()


class Topics(ClusterConnections):
    """Answers metadata: name → partitions, or an error."""

    def __init__(self, topics: dict[str, int | ErrorCode]) -> None:
        super().__init__(CONFIG)
        self.found = topics
        self.asked: list[str] = []

    def refresh(self, names: Any, *, create: bool = False) -> dict[str, TopicState]:
        assert create
        self.asked += names
        answer = {}
        for name in names:
            known = self.found.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            count, error = (0, known) if isinstance(known, ErrorCode) else (known, 0)
            answer[name] = TopicState(name, dict.fromkeys(range(count), 1), int(error))
        return answer


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_writer, "BatchSender", Sent)


def writer_of(
    topics: dict[str, int | ErrorCode], **options: str
) -> tuple[RowWriter, Topics, list[list[TopicPartition]]]:
    begun: list[list[TopicPartition]] = []
    given = {name.replace("__", "."): value for name, value in options.items()}

    def begin(partitions: Any) -> InitializedProducer:
        begun.append(sorted(partitions))
        return WHO

    cluster = Topics(topics)
    return RowWriter(SinkOptions.parse(OPTIONS | given), cluster, begin), cluster, begun


def rows(values: list[str], **columns: Any) -> Any:
    return pa.record_batch({"value": pa.array(values)} | columns)


def test_rows_wait_until_there_are_enough_or_no_more() -> None:
    made, cluster, begun = writer_of({"t": 2})
    zero = pa.array([0, 0, 0], pa.int32())
    made.write(rows(["a", "b", "c"], partition=zero))
    made.write(rows([]))
    made.write(rows(["d", "e", "f"], partition=pa.array([0, 1, 1], pa.int32())))
    assert Sent.last.batches == []
    made.flush()
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    assert sorted(Sent.last.batches) == [(t0, [b"a", b"b", b"c", b"d"]), (t1, [b"e", b"f"])]
    assert Sent.last.flushed
    assert begun == [[t0], [t1]]
    assert cluster.asked == ["t"]
    assert (made.rows, made.topics) == (6, ["t"])
    made.flush()
    assert len(Sent.last.batches) == 2


def test_full_batches_are_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, _ = writer_of({"t": 1}, kafka__batch__size="1000")
    made.write(rows(["x" * 100] * 25))
    assert [len(values) for _, values in Sent.last.batches] == [8, 8, 8]
    monkeypatch.setattr(row_writer, "OPEN_BYTES", 50)
    made.write(rows(["y"]))
    assert [len(values) for _, values in Sent.last.batches] == [8, 8, 8, 2]


def test_topics_by_row() -> None:
    made, cluster, _ = writer_of({"a": 1, "b": 1}, topic="")
    made.write(rows(["1", "2", "3"], topic=pa.array(["a", "b", "a"])))
    made.write(rows(["4"], topic=pa.array(["b"])))
    made.flush()
    assert sorted(Sent.last.batches) == [
        (TopicPartition("a", 0), [b"1", b"3"]),
        (TopicPartition("b", 0), [b"2", b"4"]),
    ]
    assert sorted(cluster.asked) == ["a", "b"]
    with pytest.raises(KafkaWriteError, match="row 5 of the task: null topic present in the data"):
        made.write(rows(["5", "6"], topic=pa.array(["a", None])))


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ({}, "Topic t not present in metadata after 20 ms"),
        ({"t": ErrorCode.LEADER_NOT_AVAILABLE}, "Topic t not present in metadata after 20 ms"),
        ({"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}, "topic t: TOPIC_AUTHORIZATION_FAILED"),
        ({"t": ErrorCode.INVALID_TOPIC_EXCEPTION}, "topic t: INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_missing_topics_are_an_error(topics: dict[str, int | ErrorCode], message: str) -> None:
    made, _, begun = writer_of(topics, kafka__max__block__ms="20")
    with pytest.raises(KafkaWriteError, match=message):
        made.write(rows(["a"]))
    assert not begun


def test_the_error_has_the_clients_text() -> None:
    made, _, _ = writer_of({"t": 1})
    made.write(rows(["a"]))
    Sent.last.trouble = KafkaClientError("topic t, partition 0: no")
    with pytest.raises(KafkaWriteError, match="topic t, partition 0: no"):
        made.flush()


@pytest.mark.parametrize(
    ("schema", "topic", "message"),
    [
        ("value string", "t", ""),
        ("value binary, key string, topic string, partition int, extra map<int,int>", None, ""),
        ("value string, topic int", "t", ""),
        ("value string, headers array<struct<key:string,value:binary>>, timestamp timestamp", "t", ""),
        ("value string", None, "topic option required when no 'topic' attribute is present"),
        ("key string", "t", "Required attribute 'value' not found"),
        ("value int", "t", "value attribute unsupported type int. value must be a(n) string or binary"),
        ("value string, topic int", None, "topic attribute unsupported type int"),
        ("value string, partition bigint", "t", "partition attribute unsupported type bigint"),
        ("value string, headers array<string>", "t", "headers attribute unsupported type array<string>"),
    ],
)
def test_columns(schema: str, topic: str | None, message: str) -> None:
    parsed = StructType()
    for column in schema.split(", "):
        name, _, kind = column.partition(" ")
        parsed.add(name, _type(kind))
    if not message:
        check_schema(parsed, topic)
        return
    with pytest.raises(OptionError) as caught:
        check_schema(parsed, topic)
    assert message in str(caught.value)


def _type(kind: str) -> Any:
    """A type by its text, without a session to parse it."""
    from pyspark.sql import types as t

    pair = t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
    return {
        "string": t.StringType(),
        "binary": t.BinaryType(),
        "int": t.IntegerType(),
        "bigint": t.LongType(),
        "timestamp": t.TimestampType(),
        "map<int,int>": t.MapType(t.IntegerType(), t.IntegerType()),
        "array<string>": t.ArrayType(t.StringType()),
        "array<struct<key:string,value:binary>>": t.ArrayType(pair),
    }[kind]


def test_the_source_hands_out_writers() -> None:
    schema = StructType().add("value", "string")
    source = KafkaliteDataSource(OPTIONS)
    made = source.writer(schema, False)
    assert isinstance(made, BatchWriter)
    again = pickle.loads(pickle.dumps(made))
    assert (again.options, again.nonce) == (made.options, made.nonce)
    assert source.writer(schema, False).nonce != made.nonce
    with pytest.raises(OptionError, match="Save mode Overwrite not allowed"):
        source.writer(schema, True)
    assert source.streamWriter(schema, True).options == made.options
