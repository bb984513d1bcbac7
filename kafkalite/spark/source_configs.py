"""The options of Spark's Kafka source as a table: type, default, allowed values and meaning.

Answers to: ``org.apache.spark.sql.kafka010.KafkaSourceProvider``, and the table of options in Spark's Kafka integration
guide. Pure; it is read by ``kafkalite config --explain``, while :class:`SourceOptions` parses.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType
from kafkalite.spark.options import SourceOptions

_PER_PARTITION = "milliseconds for each partition, as JSON"
_OFFSETS = "offsets for each partition, as JSON with -2 for the beginning and -1 for the end"


def _text(name: str, doc: str, allowed: str, default: str | None = None, choices: tuple[str, ...] = ()) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, doc, choices=choices, allowed=allowed)


def _flag(name: str, doc: str, default: bool) -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, default, doc)


def _number(name: str, doc: str, default: int = 0, kind: ConfigType = ConfigType.LONG) -> ConfigKey:
    """``default`` 0: no limit is set."""
    return ConfigKey(name, kind, default or None, doc, minimum=1)


SOURCE_CONFIGS: Final = ConfigDef(
    (
        _text(
            "kafka.bootstrap.servers",
            "Addresses of some brokers, from which the client learns the others; required.",
            "host:port, separated by commas",
        ),
        _text(
            "kafka.*",
            "A setting of the Kafka client under Kafka's name, such as kafka.isolation.level or"
            " kafka.ssl.truststore.location; a name that the client does not know has no effect. Deserializers,"
            " interceptors, auto.offset.reset and enable.auto.commit are refused, because the source decides on them.",
            "the values that Kafka allows",
        ),
        _text(
            "subscribe",
            "Names of the topics to read. Exactly one of subscribe, subscribePattern and assign is required.",
            "names, separated by commas",
        ),
        _text(
            "subscribePattern",
            "Pattern of the topics to read. Exactly one of subscribe, subscribePattern and assign is required.",
            "a regular expression that occurs in the name",
        ),
        _text(
            "assign",
            "Partitions to read. Exactly one of subscribe, subscribePattern and assign is required.",
            'JSON, for example {"topic":[0,1]}',
        ),
        _text(
            "startingOffsets",
            "Where a new query begins: a batch at earliest and a stream at latest unless the option is set. A stream"
            " that has a checkpoint ignores the option.",
            f"earliest, latest (streams only), or {_OFFSETS}",
        ),
        _text(
            "startingOffsetsByTimestamp",
            "Where a new query begins: at the first record at or after a timestamp for each partition. It wins over"
            " startingOffsets.",
            _PER_PARTITION,
        ),
        ConfigKey(
            "startingTimestamp",
            ConfigType.LONG,
            None,
            "Where a new query begins: at the first record at or after a timestamp in milliseconds, in all"
            " partitions. It wins over startingOffsetsByTimestamp and startingOffsets.",
        ),
        _text(
            "startingOffsetsByTimestampStrategy",
            "What happens in a partition that has no record at or after the starting timestamp: the query fails, or"
            " begins at the partition's end.",
            "",
            "error",
            ("error", "latest"),
        ),
        _text(
            "endingOffsets",
            "Where a batch query ends, before the offset; a stream refuses the option.",
            f"latest, or {_OFFSETS}",
            "latest",
        ),
        _text(
            "endingOffsetsByTimestamp",
            "Where a batch query ends: before the first record at or after a timestamp for each partition. It wins over"
            " endingOffsets; a stream refuses the option.",
            _PER_PARTITION,
        ),
        ConfigKey(
            "endingTimestamp",
            ConfigType.LONG,
            None,
            "Where a batch query ends: before the first record at or after a timestamp in milliseconds, in all"
            " partitions. It wins over endingOffsetsByTimestamp and endingOffsets; a stream refuses the option.",
        ),
        _flag(
            "failOnDataLoss",
            "Whether a query fails if records that it was to read are gone; if false, it continues with the records"
            " that exist, and the executor's log says so.",
            SourceOptions.fail_on_data_loss,
        ),
        _flag("includeHeaders", "Whether the frame has a column headers.", SourceOptions.include_headers),
        _number(
            "minPartitions",
            "Number of tasks below which large partitions are divided; without it each partition is one task.",
            SourceOptions.min_partitions,
            ConfigType.INT,
        ),
        _number("maxRecordsPerPartition", "Offsets of one task at most.", SourceOptions.max_records_per_partition),
        _number(
            "maxOffsetsPerTrigger",
            "Offsets of one micro-batch of a stream at most, shared by the partitions in proportion to their sizes.",
            SourceOptions.max_offsets_per_trigger,
        ),
        _number(
            "minOffsetsPerTrigger",
            "Offsets that a stream waits for before a micro-batch, but not longer than maxTriggerDelay.",
            SourceOptions.min_offsets_per_trigger,
        ),
        _text(
            "maxTriggerDelay",
            "Time after which a micro-batch is made although there are fewer offsets than minOffsetsPerTrigger.",
            "a time such as 15m, 30s or 500ms; a number without a unit is milliseconds",
            f"{SourceOptions.max_trigger_delay_ms // 60_000}m",
        ),
        _number(
            "kafkaConsumer.pollTimeoutMs",
            "How long a task waits for records that the offsets promise, or for a leader, in milliseconds.",
            SourceOptions.poll_timeout_ms,
        ),
        _number(
            "fetchOffset.numRetries",
            "Attempts at asking the brokers for offsets.",
            SourceOptions.offset_attempts,
            ConfigType.INT,
        ),
        _number(
            "fetchOffset.retryIntervalMs",
            "Pause between two attempts at asking the brokers for offsets, in milliseconds.",
            SourceOptions.offset_retry_ms,
        ),
    )
)
"""Every option of the source, as Spark writes it; a query may write the names in any case."""
