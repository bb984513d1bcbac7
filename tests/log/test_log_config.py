"""The settings of a log: their keys, types and defaults."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kafkalite.common.config import ConfigType
from kafkalite.log.log_config import TOPIC_CONFIGS, LogConfig

PARSED = {
    ConfigType.BOOLEAN: bool,
    ConfigType.DOUBLE: float,
    ConfigType.INT: int,
    ConfigType.LIST: tuple,
    ConfigType.LONG: int,
    ConfigType.STRING: str,
}


@pytest.mark.parametrize("name", TOPIC_CONFIGS.keys)
def test_a_key_of_topics_and_its_field_have_the_same_type_and_default(name: str) -> None:
    default, key = getattr(LogConfig(), name.replace(".", "_")), TOPIC_CONFIGS[name]
    assert type(default) is PARSED[key.type]
    assert default == key.default


def test_every_field_has_a_key() -> None:
    assert [field.name for field in fields(LogConfig)] == [name.replace(".", "_") for name in TOPIC_CONFIGS.keys]
