"""``kafkalite configs``: which entity, which values, how they are shown."""

from __future__ import annotations

import pytest

from kafkalite.cli.clients import ConfigDescription, ConfigSynonym
from kafkalite.cli.configs import describe, entities, entity, parse_config_list, print_entries
from kafkalite.cli.main import UsageError

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


def test_only_what_was_set_for_the_entity(capsys: pytest.CaptureFixture[str]) -> None:
    described = {
        "own": entry("1", "DYNAMIC_TOPIC_CONFIG"),
        "of.the.broker": entry("2", "DYNAMIC_BROKER_CONFIG"),
        "default": entry("3", "DEFAULT_CONFIG"),
    }
    cluster = Admin(describe_configs={"topic": {"t": described}})
    describe(cluster, parse("configs", "--describe", "--topic", "t"), "TOPIC", "t")
    assert [line.split("=")[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["  own"]
    describe(cluster, parse("configs", "--describe", "--topic", "t", "--all"), "TOPIC", "t")
    assert len(capsys.readouterr().out.splitlines()) == 4
