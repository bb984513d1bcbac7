"""The BROKER_LOGGER resource: which loggers there are, which changes of their levels are refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kafkalite.admin.broker_loggers import LEVELS, level_name, logger_levels
from kafkalite.admin.config_admin import AlterOp, ConfigEntry, ResourceType
from kafkalite.admin.dynamic_config import ConfigSource
from kafkalite.common.errors import ApiError, ErrorCode
from tests.support import run

from .helpers import AdminCluster

LOGGERS = ResourceType.BROKER_LOGGER
ROOM, LOGGER = "kafkalite_test.room", "kafkalite_test.room.module"
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """A logger in a room; both, and the root, get back their levels."""
    before = logging.root.level
    logging.getLogger(LOGGER).setLevel(logging.NOTSET)
    yield
    logging.root.setLevel(before)
    for name in (LOGGER, ROOM):
        logging.getLogger(name).setLevel(logging.NOTSET)


def described() -> dict[str, str | None]:
    return {entry.name: entry.value for entry in run(AdminCluster().configs.describe(LOGGERS, "1", None))}


def alter(*ops: AlterOp, validate_only: bool = False, name: str = "1") -> None:
    run(AdminCluster().configs.alter(LOGGERS, name, ops, validate_only=validate_only))


def test_every_logger_is_described_with_the_level_in_force() -> None:
    logging.root.setLevel(logging.WARNING)
    found = run(AdminCluster().configs.describe(LOGGERS, "1", ["root", LOGGER]))
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    assert found == [
        ConfigEntry("root", "WARN", source, False, False, 0),
        ConfigEntry(LOGGER, "WARN", source, False, False, 0),
    ]


def test_a_room_is_a_logger_for_all_its_modules() -> None:
    alter(AlterOp(ROOM, SET, "TRACE"))
    assert described()[ROOM] == described()[LOGGER] == "TRACE"
    assert logging.getLogger(LOGGER).isEnabledFor(logging.DEBUG)
    alter(AlterOp(LOGGER, SET, "FATAL"))
    assert (described()[ROOM], described()[LOGGER]) == ("TRACE", "FATAL")
    assert not logging.getLogger(LOGGER).isEnabledFor(logging.ERROR)


def test_a_deleted_level_is_that_of_the_logger_above() -> None:
    alter(AlterOp("root", SET, "ERROR"), AlterOp(LOGGER, SET, "DEBUG"))
    assert described()[LOGGER] == "DEBUG"
    alter(AlterOp(LOGGER, DELETE, None))
    assert described()[LOGGER] == "ERROR"


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_of_kafka_is_taken(level: str) -> None:
    alter(AlterOp(LOGGER, SET, level))
    assert described()[LOGGER] == level


def test_levels_between_those_of_kafka_have_the_name_of_the_next_lower_one() -> None:
    assert [level_name(level) for level in (60, 45, 15, 7, 1)] == ["FATAL", "ERROR", "DEBUG", "TRACE", "TRACE"]


def test_only_checking_changes_nothing() -> None:
    before = logger_levels()
    alter(AlterOp(LOGGER, SET, "FATAL"), validate_only=True)
    assert logger_levels() == before


@pytest.mark.parametrize(
    ("name", "op", "code"),
    [
        ("1", AlterOp(LOGGER, SET, "OFF"), ErrorCode.INVALID_CONFIG),
        ("1", AlterOp(LOGGER, SET, "info"), ErrorCode.INVALID_CONFIG),
        ("1", AlterOp(LOGGER, SET, None), ErrorCode.INVALID_REQUEST),
        ("1", AlterOp("no.such.logger", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        ("1", AlterOp("no.such.logger", DELETE, None), ErrorCode.INVALID_CONFIG),
        ("1", AlterOp("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ("1", AlterOp(LOGGER, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ("1", AlterOp(LOGGER, SUBTRACT, "INFO"), ErrorCode.INVALID_REQUEST),
        ("1", AlterOp(LOGGER, 9, "INFO"), ErrorCode.INVALID_REQUEST),
        ("2", AlterOp(LOGGER, SET, "INFO"), ErrorCode.INVALID_REQUEST),
        ("", AlterOp(LOGGER, SET, "INFO"), ErrorCode.INVALID_REQUEST),
        ("x", AlterOp(LOGGER, SET, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_refused_change_changes_no_level_of_its_request(name: str, op: AlterOp, code: ErrorCode) -> None:
    before = logger_levels()
    with pytest.raises(ApiError) as caught:
        alter(AlterOp(ROOM, SET, "TRACE"), op, name=name)
    assert caught.value.code is code
    assert logger_levels() == before


@pytest.mark.parametrize("name", ["", "2", "x"])
def test_only_this_brokers_loggers_are_described(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        run(AdminCluster().configs.describe(LOGGERS, name, None))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_levels_are_changed_one_by_one_only() -> None:
    with pytest.raises(ApiError) as caught:
        run(AdminCluster().configs.replace(LOGGERS, "1", {LOGGER: "INFO"}))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
