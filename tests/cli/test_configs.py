"""``kafkalite configs``: which entity, which values, how they are shown."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import DescribeConfigsResponse

from kafkalite.cli.clients import ConfigDescription, ConfigSynonym
from kafkalite.cli.configs import describe, entities, entity, parse_config_list, print_entries
from kafkalite.cli.main import UsageError
from kafkalite.common.errors import ApiError, ErrorCode

from .helpers import Admin, parse


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--topic", "t"), ("TOPIC", "t")),
        (("--broker", "1"), ("BROKER", "1")),
        (("--broker-defaults",), ("BROKER", "")),
        (("--entity-type", "topics", "--entity-name", "t"), ("TOPIC", "t")),
        (("--entity-type", "topics"), ("TOPIC", None)),
        (("--entity-type", "brokers", "--entity-default"), ("BROKER", "")),
        (("--entity-type", "broker-loggers", "--entity-name", "2"), ("BROKER_LOGGER", "2")),
    ],
)
def test_entities(flags: tuple[str, ...], expected: tuple[str, str | None]) -> None:
    assert entity(entities(parse("configs", "--describe", *flags))) == expected


def test_topics_have_no_default() -> None:
    with pytest.raises(UsageError, match="have no default"):
        entity(entities(parse("configs", "--describe", "--entity-type", "topics", "--entity-default")))


def test_the_loggers_of_all_brokers_cannot_be_described_at_once() -> None:
    args = parse("configs", "--describe", "--entity-type", "broker-loggers")
    with pytest.raises(UsageError, match="needs --entity-name"):
        describe(Admin(), args, *entity(entities(args)))


@pytest.mark.parametrize("flags", [(), ("--entity-name", "x"), ("--entity-type", "topics", "--broker", "1")])
def test_flags_that_name_no_entity(flags: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        entity(entities(parse("configs", "--describe", *flags)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=2", {"a": "1", "b": "2"}),
        ("a=[1,2],b=3", {"a": "1,2", "b": "3"}),
        ("a=,b=x=y", {"a": "", "b": "x=y"}),
    ],
)
def test_lists_of_values(text: str, expected: dict[str, str]) -> None:
    assert parse_config_list(text) == expected


def test_a_value_without_a_name() -> None:
    with pytest.raises(UsageError, match="expected NAME=VALUE"):
        parse_config_list("a=1,b")


def entry(
    value: str | None, source: str, synonyms: list[ConfigSynonym] | None = None, *, is_sensitive: bool = False
) -> ConfigDescription:
    return {"value": value, "config_source": source, "is_sensitive": is_sensitive, "synonyms": synonyms}


def test_shown_as_kafka_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    synonyms: list[ConfigSynonym] = [
        {"source": "DYNAMIC_TOPIC_CONFIG", "name": "retention.ms", "value": "5"},
        {"source": "DEFAULT_CONFIG", "name": "log.retention.ms", "value": None},
    ]
    entries = {
        "retention.ms": entry("5", "DYNAMIC_TOPIC_CONFIG", synonyms=synonyms),
        "secret": entry("x", "DYNAMIC_TOPIC_CONFIG", is_sensitive=True),
    }
    print_entries("TOPIC", "t", entries, everything=False)
    print_entries("BROKER", "", {}, everything=True)
    assert capsys.readouterr().out.splitlines() == [
        "Dynamic configs for topic t are:",
        "  retention.ms=5 sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5, DEFAULT_CONFIG:log.retention.ms=null}",
        "  secret=null sensitive=true synonyms={}",
        "Default configs for brokers in the cluster are:",
    ]


SOURCES = {"DYNAMIC_TOPIC_CONFIG": 1, "DYNAMIC_BROKER_CONFIG": 2, "DEFAULT_CONFIG": 5}


class Broker:
    """An admin client whose broker describes every entity by these sources of keys, or refuses it."""

    def __init__(self, sources: dict[str, str], refusal: ErrorCode = ErrorCode.NONE) -> None:
        self._sources = sources
        self._refusal = refusal
        self.asked: list[tuple[str, dict[str, int]]] = []
        self._manager = self
        self._describe_configs_process_responses = KafkaAdminClient._describe_configs_process_responses

    def run(self, _: object, __: object, request: Any, node: dict[str, int]) -> Any:
        (resource,) = request.resources
        kind, name, _ = resource
        self.asked.append((name, node))
        result: Any = DescribeConfigsResponse.DescribeConfigsResult
        config = result.DescribeConfigsResourceResult
        configs = [
            config(name=key, value="1", read_only=False, is_sensitive=False, config_source=SOURCES[source], synonyms=[])
            for key, source in self._sources.items()
        ]
        refused = bool(self._refusal)
        made = result(
            error_code=self._refusal,
            error_message="No." if refused else None,
            resource_type=kind,
            resource_name=name,
            configs=[] if refused else configs,
        )
        return DescribeConfigsResponse(throttle_time_ms=0, results=[made])


def described(broker: Any, *flags: str) -> int:
    args = parse("configs", "--describe", *flags)
    return describe(broker, args, *entity(entities(args)))


def test_only_what_was_set_for_the_entity(capsys: pytest.CaptureFixture[str]) -> None:
    broker = Broker({"own": "DYNAMIC_TOPIC_CONFIG", "of.the.broker": "DYNAMIC_BROKER_CONFIG", "less": "DEFAULT_CONFIG"})
    described(broker, "--topic", "t")
    assert [line.split("=")[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["  own"]
    described(broker, "--topic", "t", "--all")
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_broker_describes_itself_and_any_broker_the_rest() -> None:
    broker = Broker({})
    for flags in (("--topic", "7"), ("--broker", "7"), ("--broker-defaults",)):
        described(broker, *flags)
    assert broker.asked == [("7", {}), ("7", {"node_id": 7}), ("", {})]


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        (("--topic", "t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (("--broker", "1"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (("--broker-defaults", "--json"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_a_refused_description_is_an_error(
    flags: tuple[str, ...], refusal: ErrorCode, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ApiError, match=f"{refusal.name}: No."):
        described(Broker({}, refusal), *flags)
    assert capsys.readouterr().out == ""
