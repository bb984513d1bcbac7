"""The options of Spark's Kafka source, parsed as Spark parses them.

Answers to: ``org.apache.spark.sql.kafka010.{KafkaSourceProvider,ConsumerStrategy}``. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kafkalite.common.types import TopicPartition
from kafkalite.spark.client.config import ClientConfig, ClientConfigError
from kafkalite.spark.offsets import (
    EARLIEST,
    LATEST,
    ByTime,
    Everywhere,
    Limit,
    OffsetError,
    Specific,
    check_limits,
    parse_offsets,
    parse_partitions,
)

T = TypeVar("T")
_STRATEGIES = ("subscribe", "subscribepattern", "assign")
_TIMES = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
_UNITS = {
    "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1,
}  # fmt: skip
_REFUSED = {
    "auto.offset.reset": "Instead set the source option 'startingoffsets' to 'earliest' or 'latest' to specify where "
    "to start. Structured Streaming manages which offsets are consumed internally, rather than relying on the "
    "kafkaConsumer to do it. Note that 'startingoffsets' only applies when a new Streaming query is started, and that "
    "resuming will always pick up from where the query left off.",
    "key.deserializer": "Keys are deserialized as byte arrays. Use DataFrame operations to explicitly deserialize the "
    "keys.",
    "value.deserializer": "Values are deserialized as byte arrays. Use DataFrame operations to explicitly deserialize "
    "the values.",
    "enable.auto.commit": "",
    "interceptor.classes": "",
}


class OptionError(ValueError):
    """An option that is refused. The text is Spark's own if Spark has one."""


@dataclass(frozen=True)
class TopicSelection:
    """The topics to read: exactly one of names, a pattern that is searched in names, and partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True)
class SourceOptions:
    """Settings of a reader. Times in milliseconds; 0 for limits that are not set."""

    client: ClientConfig
    topics: TopicSelection
    start: Limit
    end: Limit
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int = 0
    max_records_per_partition: int = 0
    max_offsets_per_trigger: int = 0
    min_offsets_per_trigger: int = 0
    max_trigger_delay_ms: int = 900_000
    poll_timeout_ms: int = 120_000
    offset_attempts: int = 3
    offset_retry_ms: int = 1000

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """From the options of a DataFrame reader, names in any case. Raises :class:`OptionError`."""
        given = {name.lower(): value for name, value in options.items()}
        try:
            return cls._parse(given, streaming)
        except (OffsetError, ClientConfigError) as error:
            raise OptionError(str(error)) from None

    @classmethod
    def _parse(cls, given: Mapping[str, str], streaming: bool) -> SourceOptions:
        start, end = _limits(given, streaming)
        topics = _topics(given)
        kafka = kafka_options(given)
        for name, why in _REFUSED.items():
            if name in kafka:
                raise OptionError(f"Kafka option '{name}' is not supported. {why}".rstrip())
        if "bootstrap.servers" not in kafka:
            raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
        least = positive(given, "minoffsetspertrigger", "minOffsetsPerTrigger")
        most = positive(given, "maxoffsetspertrigger", "maxOffsetsPerTrigger")
        if least and most and least > most:
            raise OptionError(
                f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."
            )
        check_limits(start, end)
        return cls(
            ClientConfig.from_kafka(kafka, request_timeout_ms="30000"),
            topics,
            start,
            end,
            fail_on_data_loss=boolean(given, "failondataloss", "failOnDataLoss", cls.fail_on_data_loss),
            include_headers=includes_headers(given),
            min_partitions=positive(given, "minpartitions", "minPartitions"),
            max_records_per_partition=positive(given, "maxrecordsperpartition", "maxRecordsPerPartition"),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=_duration(given, "maxtriggerdelay", "maxTriggerDelay", cls.max_trigger_delay_ms),
            poll_timeout_ms=positive(given, "kafkaconsumer.polltimeoutms", "kafkaConsumer.pollTimeoutMs")
            or cls.poll_timeout_ms,
            offset_attempts=positive(given, "fetchoffset.numretries", "fetchOffset.numRetries") or cls.offset_attempts,
            offset_retry_ms=positive(given, "fetchoffset.retryintervalms", "fetchOffset.retryIntervalMs")
            or cls.offset_retry_ms,
        )


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether the column ``headers`` is asked for. Raises :class:`OptionError`."""
    return boolean({name.lower(): value for name, value in options.items()}, "includeheaders", "includeHeaders", False)


def kafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options ``kafka.*``, in lower case and without that prefix."""
    return {name.lower()[6:]: value for name, value in options.items() if name.lower().startswith("kafka.")}


def _topics(given: Mapping[str, str]) -> TopicSelection:
    strategies = [name for name in _STRATEGIES if name in given]
    listed = "subscribe, subscribepattern, assign. See the docs for more details."
    if not strategies:
        raise OptionError(f"One of the following options must be specified for Kafka source: {listed}")
    if len(strategies) > 1:
        raise OptionError(f"Only one of the following options can be specified for Kafka source: {listed}")
    value = given[strategies[0]]
    if strategies[0] == "assign":
        if not value.strip().startswith("{"):
            raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
        return TopicSelection(partitions=tuple(parse_partitions(value)))
    if strategies[0] == "subscribe":
        names = tuple(filter(None, (name.strip() for name in value.split(","))))
        if not names:
            raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
        return TopicSelection(names=names)
    pattern = value.strip()
    if not pattern:
        raise OptionError(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
        )
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(f"Option 'subscribePattern' is no regular expression: '{value}': {error}") from None
    return TopicSelection(pattern=pattern)


def _limits(given: Mapping[str, str], streaming: bool) -> tuple[Limit, Limit]:
    start = _limit(given, "starting", LATEST if streaming else EARLIEST)
    if streaming:
        if "endingoffsets" in given:
            raise OptionError("ending offset not valid in streaming queries")
        if "endingoffsetsbytimestamp" in given or "endingtimestamp" in given:
            raise OptionError("ending timestamp not valid in streaming queries")
        return start, Everywhere(LATEST)
    end = _limit(given, "ending", LATEST)
    if start == Everywhere(LATEST):
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if end == Everywhere(EARLIEST):
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    _never(start, LATEST, "startingOffsets for {} can't be latest for batch queries on Kafka")
    _never(end, EARLIEST, "ending offset for {} can't be earliest for batch queries on Kafka")
    return start, end


def _never(limit: Limit, offset: int, text: str) -> None:
    if isinstance(limit, Specific):
        for partition, found in limit.offsets.items():
            if found == offset:
                raise OptionError(text.format(partition))


def _limit(given: Mapping[str, str], side: str, default: int) -> Limit:
    """The limit of a side. As in Spark: a timestamp for all before timestamps by partition, these before offsets."""
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy is '{strategy}': it must be 'error' or 'latest'")
    latest = strategy == "latest"
    if f"{side}timestamp" in given:
        text = given[f"{side}timestamp"].strip()
        return ByTime(_convert(int, text, f"Expected a single long value, got {text}"), {}, latest)
    if f"{side}offsetsbytimestamp" in given:
        return ByTime(None, parse_offsets(given[f"{side}offsetsbytimestamp"].strip(), _TIMES), latest)
    text = given.get(f"{side}offsets", "").strip()
    named = {"": default, "latest": LATEST, "earliest": EARLIEST}.get(text.lower())
    return Specific(parse_offsets(text)) if named is None else Everywhere(named)


def _convert(kind: Callable[[str], T], text: str, message: str) -> T:
    try:
        return kind(text)
    except ValueError:
        raise OptionError(message) from None


def positive(given: Mapping[str, str], key: str, name: str) -> int:
    """A number above 0; 0 if the option is not set."""
    if key not in given:
        return 0
    number = _convert(int, given[key].strip(), f"{name} is '{given[key]}': not a number")
    if number <= 0:
        raise OptionError(f"{name} must be positive")
    return number


def boolean(given: Mapping[str, str], key: str, name: str, default: bool) -> bool:
    text = given.get(key)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"{name} is '{text}': it must be 'true' or 'false'")
    return text.strip().lower() == "true"


def _duration(given: Mapping[str, str], key: str, name: str, default: int) -> int:
    """Milliseconds of a time as Spark writes it: ``15m``, ``500ms``, ``3600`` (milliseconds)."""
    if key not in given:
        return default
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", given[key].lower())
    if match is None or match.group(2) not in _UNITS:
        raise OptionError(f"{name} is '{given[key]}': a time is meant, such as 15m, 30s or 500ms")
    return int(int(match.group(1)) * _UNITS[match.group(2)])
