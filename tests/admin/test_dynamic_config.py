"""Values in force: which source wins, who hears of changes, what is refused."""

from __future__ import annotations

import logging

import pytest

from kafkalite.admin.dynamic_config import ConfigSource, DynamicConfig
from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue, Update
from kafkalite.common.errors import ConfigError

KEYS = ConfigDef(
    [
        ConfigKey("live", ConfigType.INT, 1, "Live.", minimum=0, update=Update.CLUSTER_WIDE),
        ConfigKey("own", ConfigType.INT, 1, "Per broker.", update=Update.PER_BROKER),
        ConfigKey("fixed", ConfigType.STRING, "a", "Fixed."),
        ConfigKey("secret", ConfigType.PASSWORD, None, "Secret."),
        ConfigKey("ssl.key.password", ConfigType.PASSWORD, None, "Secret.", update=Update.PER_LISTENER),
        ConfigKey("ssl.keystore.type", ConfigType.STRING, "JKS", "Stores.", update=Update.PER_LISTENER),
        ConfigKey("max.connections", ConfigType.INT, 9, "Many.", update=Update.CLUSTER_WIDE),
        ConfigKey("rate", ConfigType.LONG, 9, "Rate.", update=Update.CLUSTER_WIDE, is_dynamic_only=True),
    ]
)


def test_a_brokers_own_override_wins_over_the_clusters_and_that_over_the_file() -> None:
    config = DynamicConfig(KEYS, {"live": "2"})
    assert config["live"] == 2
    config.update_default({"live": "3"})
    assert config["live"] == 3
    config.update_broker({"live": "4"})
    assert config["live"] == 4
    assert [(s.value, s.source) for s in config.synonyms("live")] == [
        ("4", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("3", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("2", ConfigSource.STATIC_BROKER_CONFIG),
        ("1", ConfigSource.DEFAULT_CONFIG),
    ]
    config.update_broker({})
    config.update_default({})
    assert config["live"] == 2


def test_listeners_hear_what_changed_after_it_has() -> None:
    config = DynamicConfig(KEYS, {})
    heard: list[tuple[frozenset[str], int]] = []
    config.on_change(lambda names: heard.append((names, config["live"])))
    config.update_default({"live": "1"})
    assert heard == []
    config.update_broker({"live": "7", "own": "2"})
    assert heard == [(frozenset({"live", "own"}), 7)]


@pytest.mark.parametrize(
    ("texts", "per_broker", "message"),
    [
        ({"fixed": "b"}, True, "read-only"),
        ({"own": "2"}, False, "broker id must be specified"),
        ({"live": "-1"}, True, "at least 0"),
        ({"ssl.keystore.type": "PEM"}, True, "only per-listener"),
        ({"listener.name.l.ssl.keystore.type": "PEM"}, False, "broker id must be specified"),
        ({"listener.name.l.max.connections": "x"}, False, "whole number"),
        ({"listener.name.l.ssl.key.password": "x"}, True, "password"),
    ],
)
def test_what_may_not_be_set_is_refused_and_where_it_stands_it_is_ignored(
    texts: dict[str, str], per_broker: bool, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = DynamicConfig(KEYS, {})
    with pytest.raises(ConfigError, match=message):
        config.check(texts, per_broker=per_broker)
    before = config.values
    with caplog.at_level(logging.ERROR):
        changed = config.update_broker(texts) if per_broker else config.update_default(texts)
    assert changed == frozenset()
    assert config.values == before
    assert message in caplog.text


def test_unknown_names_are_kept_but_mean_nothing() -> None:
    config = DynamicConfig(KEYS, {})
    config.check({"plugin.key": "x"}, per_broker=True)
    config.update_broker({"plugin.key": "x"})
    assert config.names()[-1] == "plugin.key"
    assert "plugin.key" not in config.values


def test_secrets_are_not_shown() -> None:
    config = DynamicConfig(KEYS, {"secret": "hush"})
    assert [synonym.value for synonym in config.synonyms("secret")] == [None]


def test_settings_of_one_listener_are_typed_as_the_key_that_they_override() -> None:
    config = DynamicConfig(KEYS, {})
    config.update_default({"listener.name.l.max.connections": "5"})
    config.update_broker({"listener.name.l.ssl.keystore.type": "PEM", "listener.name.l.plain.max.connections": "6"})
    assert config.names()[-3:] == [
        "listener.name.l.max.connections",
        "listener.name.l.ssl.keystore.type",
        "listener.name.l.plain.max.connections",
    ]
    keys = [config.key(name) for name in config.names()[-3:]]
    assert [key.name for key in keys if key is not None] == ["max.connections", "ssl.keystore.type", "max.connections"]
    assert config["max.connections"] == 9


def test_what_exists_only_where_it_is_set_has_no_default_to_show() -> None:
    config = DynamicConfig(KEYS, {})
    assert "rate" not in config.names()
    assert config.synonyms("rate") == []
    config.update_broker({"rate": "5"})
    assert "rate" in config.names()
    assert [synonym.value for synonym in config.synonyms("rate")] == ["5"]


def test_validators_compare_what_is_with_what_would_be() -> None:
    seen: list[tuple[ConfigValue, ConfigValue]] = []
    config = DynamicConfig(KEYS, {"live": "2"}, (lambda now, then: seen.append((now["live"], then["live"])),))
    config.update_default({"live": "3"})
    config.update_broker({"live": "4"})
    config.check_change({"live": "5"}, per_broker=True)
    config.check_change({}, per_broker=True)
    config.check_change({"live": "6"}, per_broker=False)
    assert seen == [(4, 5), (4, 3), (4, 4)]


def test_a_change_for_one_listener_is_told() -> None:
    config = DynamicConfig(KEYS, {"listener.name.l.max.connections": "4"})
    told: list[tuple[set[str], object]] = []
    config.on_change(lambda names: told.append((set(names), config.of_listener("L")["max.connections"])))
    config.update_default({"listener.name.l.max.connections": "5"})
    config.update_default({"listener.name.l.max.connections": "5"})
    config.update_broker({"listener.name.l.max.connections": "6"})
    config.update_broker({})
    config.update_default({})
    assert told == [({"listener.name.l.max.connections"}, value) for value in (5, 6, 5, 4)]
