"""The levels of this process's loggers, as Kafka's BROKER_LOGGER resource has them: read and changed while it runs.

Answers to: ``kafka.utils.Log4jController`` and ``ConfigAdminManager.validateLogLevelConfigs`` (KIP-412). Deterministic:
a change lasts until the process ends, and is written nowhere.

A logger is a module of this package, or a room with all modules in it (``kafkalite.controller``); the name ``root``
stands for all. FATAL is Python's CRITICAL, and TRACE is below DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from kafkalite.common.errors import ApiError, ErrorCode

ROOT: Final = "root"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
"""Kafka's ``LogLevelConfig.VALID_LOG_LEVELS``, the least talkative first."""


def logger_levels() -> dict[str, str]:
    """Every logger with the level in force: its own, or that of the nearest logger above it."""
    names = (ROOT, *sorted(logging.root.manager.loggerDict))
    return {name: level_name(_level_in_force(name)) for name in names}


def level_name(level: int) -> str:
    """Kafka's name of a level of Python: the most talkative one that lets everything of ``level`` through."""
    return next((name for name, value in LEVELS.items() if value <= level), "TRACE")


def check_level(name: str, level: str) -> None:
    """Check that ``name`` is a logger, and ``level`` one of :data:`LEVELS`. Raises :class:`ApiError` INVALID_CONFIG."""
    check_logger(name)
    if level not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}",
        )


def check_logger(name: str) -> None:
    """Check that ``name`` is a logger. Raises :class:`ApiError` INVALID_CONFIG."""
    if name != ROOT and name not in logging.root.manager.loggerDict:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")


def check_unset(name: str) -> None:
    """Check that the level of ``name`` may be deleted.

    Raises :class:`ApiError` INVALID_CONFIG, or INVALID_REQUEST for the root logger, which has no logger above it.
    """
    check_logger(name)
    if name == ROOT:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")


def set_levels(levels: Iterable[tuple[str, str | None]]) -> None:
    """Set the level of each logger; ``None`` gives it that of the logger above it."""
    for name, level in levels:
        logging.getLogger(None if name == ROOT else name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _level_in_force(name: str) -> int:
    # A room without a logger of its own is a placeholder in the table, and is not made a logger by being described.
    while name != ROOT:
        logger = logging.root.manager.loggerDict.get(name)
        if isinstance(logger, logging.Logger):
            return logger.getEffectiveLevel()
        name = name.rpartition(".")[0] or ROOT
    return logging.root.level
