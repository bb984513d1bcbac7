"""Settings by Kafka's names."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from kafkalite.common.config import ConfigKey
from kafkalite.common.errors import ConfigError
from kafkalite.consumer.config import CONSUMER_CONFIGS, ConsumerConfig
from kafkalite.consumer.security_keys import SECURITY_CONFIGS

NEEDED = {"zookeeper.connect": "zk:2181", "group.id": "g"}


def test_kafkas_defaults() -> None:
    config = ConsumerConfig.from_properties(NEEDED)
    assert (config.zookeeper_connect, config.group_id) == ("zk:2181", "g")
    assert (config.auto_commit_enable, config.auto_commit_interval_ms) == (True, 60_000)
    assert (config.rebalance_max_retries, config.rebalance_backoff_ms) == (4, 2000)
    assert (config.auto_offset_reset, config.consumer_timeout_ms) == ("largest", -1)


def test_properties() -> None:
    more = {"auto.commit.enable": "False", "auto.offset.reset": "earliest", "rebalance.max.retries": "7"}
    config = ConsumerConfig.from_properties(NEEDED | more)
    assert (config.auto_commit_enable, config.auto_offset_reset, config.rebalance_max_retries) == (False, "smallest", 7)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"group.id": "g"}, "zookeeper.connect: missing"),
        (NEEDED | {"group.id": ""}, "group.id: must not be empty"),
        (NEEDED | {"auto.offset.reset": "middle"}, "auto.offset.reset: 'middle': expected smallest or largest"),
        (NEEDED | {"auto.commit.enable": "yes"}, "expected true or false"),
        (NEEDED | {"rebalance.backoff.ms": "soon"}, "expected a number"),
        (NEEDED | {"rebalance.max.retries": "0"}, "rebalance.max.retries: must be at least 1"),
        (NEEDED | {"security.protocol": "TLS"}, "Invalid value TLS for configuration security.protocol"),
        (NEEDED | {"zookeeper.ssl.client.enable": "yes"}, "allowed is true or false"),
        (NEEDED | {"bootstrap.servers": "b:1"}, "bootstrap.servers: not a setting of the ZooKeeper consumer"),
    ],
)
def test_invalid_settings_are_refused(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ConsumerConfig.from_properties(properties)


def test_the_table_of_settings_has_the_fields_and_their_defaults() -> None:
    made = ConsumerConfig("zookeeper:2181", "group")
    defaults = CONSUMER_CONFIGS.defaults()
    assert [name.replace(".", "_") for name in defaults if name not in SECURITY_CONFIGS] == [
        field.name for field in fields(ConsumerConfig) if field.name != "security"
    ]
    for name, default in defaults.items():
        assert name in SECURITY_CONFIGS or default is None or getattr(made, name.replace(".", "_")) == default, name


@pytest.mark.parametrize("key", [key for key in CONSUMER_CONFIGS.keys.values() if key.minimum is not None])
def test_a_setting_below_its_minimum_is_refused(key: ConfigKey) -> None:
    properties = {"zookeeper.connect": "z:1", "group.id": "g", key.name: "0"}
    with pytest.raises(ConfigError, match=f"^{re.escape(key.name)}: must be at least 1$"):
        ConsumerConfig.from_properties(properties)
