"""Options of writers: Spark's own words for what is refused, Kafka's names for what is passed on."""

from __future__ import annotations

import pickle

import pytest

from kafkalite.spark.options import OptionError
from kafkalite.spark.sink_options import BATCH_BYTES, SinkOptions
from kafkalite.spark.writers import batch_of

BASE = {"kafka.bootstrap.servers": "h:1"}


def parse(**options: str) -> SinkOptions:
    return SinkOptions.parse(BASE | {name.replace("__", "."): value for name, value in options.items()})


def test_defaults() -> None:
    options = parse()
    assert (options.topic, options.batch_id) == (None, None)
    assert options.exactly_once
    assert options.fail_on_data_loss
    assert (options.acks, options.idempotent, options.codec) == (-1, True, 0)
    assert (options.batch_bytes, options.delivery_timeout_ms, options.max_block_ms) == (BATCH_BYTES, 120_000, 60_000)
    assert options.transaction_timeout_ms == 0
    assert not options.round_robin
    assert pickle.loads(pickle.dumps(options)) == options


def test_everything_in_any_case() -> None:
    options = SinkOptions.parse(
        {
            "KAFKA.bootstrap.servers": "h:1",
            "Topic": " t ",
            "kafkalite.batchId": "load of today",
            "kafkalite.exactlyonce": "FALSE",
            "FailOnDataLoss": "false",
            "kafka.acks": "1",
            "kafka.compression.type": "ZSTD",
            "kafka.batch.size": "1000",
            "kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "kafka.transaction.timeout.ms": "5000",
        }
    )
    assert (options.topic, options.batch_id) == ("t", "load of today")
    assert not options.exactly_once
    assert not options.fail_on_data_loss
    assert (options.acks, options.idempotent, options.codec) == (1, False, 4)
    assert (options.batch_bytes, options.transaction_timeout_ms) == (1000, 5000)
    assert options.round_robin


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka__key.serializer": "x"}, "'key.serializer' is not supported. Keys are serialized"),
        ({"kafka__value.serializer": "x"}, "'value.serializer' is not supported"),
        ({"kafka__transactional.id": "x"}, "'transactional.id' is not supported"),
        ({"kafka__acks": "2"}, "Invalid value 2 for kafka.acks: it must be one of -1, 0, 1, all"),
        ({"kafka__compression.type": "brotli"}, "Invalid value brotli for kafka.compression.type"),
        ({"kafka__batch.size": "0"}, "kafka.batch.size must be positive"),
        ({"kafka__partitioner.class": "my.Own"}, "Invalid value my.Own for kafka.partitioner.class"),
        ({"kafka__bootstrap.servers": "nowhere"}, "Invalid url in kafka.bootstrap.servers"),
        ({"kafkalite__batchId": " "}, "kafkalite.batchId is ' '"),
        ({"kafkalite__queryId": " ", "kafkalite__batchId": "1"}, "kafkalite.queryId is ' '"),
        ({"kafkalite__queryId": "q", "kafkalite__batchId": "x"}, "kafkalite.batchId is 'x': with kafkalite.queryId"),
        ({"kafkalite__queryId": "q"}, "kafkalite.batchId is 'None': with kafkalite.queryId"),
        ({"kafkalite__exactlyOnce": "maybe"}, "kafkalite.exactlyOnce is 'maybe'"),
    ],
)
def test_refusals(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(**options)
    assert message in str(caught.value)


def test_a_micro_batch_by_its_number() -> None:
    options = parse(kafkalite__queryId="q", kafkalite__batchId="7")
    assert (options.query, options.batch_id) == ("q", "7")
    assert batch_of(options) == ("q", 7)
    assert batch_of(parse(kafkalite__batchId="7")) == ("batch-7", 0)


def test_no_servers() -> None:
    with pytest.raises(OptionError, match="must be specified for configuring Kafka producer"):
        SinkOptions.parse({})
