"""The content of a pipeline's TOML file: its name, its job, the cluster, its trigger, and the job's own options.

Answers to: ``org.apache.kafka.connect.runtime.ConnectorConfig``. Pure.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.jobs import JOBS
from kafkalite.pipelines.options import as_text, flatten, parse_table, unknown_key

__all__ = ["Pipeline", "PipelineError", "SparkSettings", "Trigger", "parse"]

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_INTERVAL = re.compile(r"\s*\d+\s*(millisecond|second|minute|hour|day)s?\s*")
_VARIABLE = re.compile(r"\$\{env:([^}]*)\}")
_TABLES = {"kafka", "trigger", "spark", "options", "source", "sink", "errors"}
_CONNECT_TABLES = ("source", "sink", "errors")


@dataclass(frozen=True)
class Trigger:
    """When micro-batches begin: ``interval`` after the last one began; or ``once``, all present input, then the end."""

    interval: str = "1 second"
    once: bool = False

    def __post_init__(self) -> None:
        if not _INTERVAL.fullmatch(self.interval):
            raise ValueError(f"interval {self.interval!r} is no time such as '5 seconds'")

    def spark(self) -> dict[str, Any]:
        """The arguments of ``DataStreamWriter.trigger``."""
        return {"availableNow": True} if self.once else {"processingTime": self.interval}


@dataclass(frozen=True)
class SparkSettings:
    """``master``, jars (files or addresses), Maven coordinates of ``packages``, and other settings ``spark.…``."""

    master: str = "local[*]"
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pipeline:
    """One file. ``where`` names it in errors; ``kafka`` has the client's settings without the prefix ``kafka.``;
    ``options`` is the job's own table (for Connect: ``source``, ``sink`` and ``errors``); ``checkpoints`` is the folder
    of the state that must outlive this machine (on any file system of Spark's), by default beside the other state."""

    name: str
    job: str
    kafka: Mapping[str, str] = field(default_factory=dict)
    trigger: Trigger = Trigger()
    spark: SparkSettings = SparkSettings()
    options: Mapping[str, object] = field(default_factory=dict)
    checkpoints: str | None = None
    where: str = "pipeline"

    def with_once(self) -> Pipeline:
        """The same pipeline, ending when it has processed all present input."""
        return replace(self, trigger=replace(self.trigger, once=True))

    def with_master(self, master: str) -> Pipeline:
        """The same pipeline on another Spark master."""
        return replace(self, spark=replace(self.spark, master=master))

    def kafka_options(self) -> dict[str, str]:
        """The client's settings as options of ``format("kafkalite")``."""
        return {f"kafka.{key}": value for key, value in self.kafka.items()}


def parse(text: str, where: str, environment: Mapping[str, str] = os.environ) -> Pipeline:
    """Parse the file ``where``. ``${env:NAME}`` in a text is the value of a variable of the ``environment``.

    Raises :class:`PipelineError`.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{where}: this is not TOML: {error}") from None
    table = _resolve(table, where, environment)
    known = {"name", "job", "checkpoints", *_TABLES}
    for key, value in table.items():
        if key not in known:
            raise unknown_key(key, known, where)
        if key in _TABLES and not isinstance(value, Mapping):
            raise PipelineError(f"{where}: '{key}' must be a table, [{key}]")
    name, job = (_text(table, key, where) for key in ("name", "job"))
    if not _NAME.fullmatch(name):
        raise PipelineError(
            f"{where}: name '{name}' may have a to z, 0 to 9, '.', '_' and '-', and begins with none of these"
        )
    if job not in JOBS and "." not in job:
        raise PipelineError(
            f"{where}: no job '{job}'; known are {', '.join(JOBS)}, or a module such as my_package.my_job"
        )
    kafka = flatten(table.get("kafka", {}))
    if "bootstrap.servers" not in kafka:
        raise PipelineError(f"{where} [kafka]: the key 'bootstrap.servers' is missing")
    return Pipeline(
        name,
        job,
        {key: as_text(value, f"{where} [kafka]", key) for key, value in kafka.items()},
        parse_table(Trigger, table.get("trigger", {}), f"{where} [trigger]"),
        _spark(table.get("spark", {}), f"{where} [spark]"),
        _options(job, table, where),
        _text(table, "checkpoints", where) if "checkpoints" in table else None,
        where,
    )


def _text(table: Mapping[str, object], key: str, where: str) -> str:
    if key not in table:
        raise PipelineError(f"{where}: the key '{key}' is missing")
    value = table[key]
    if not isinstance(value, str) or not value:
        raise PipelineError(f"{where}: '{key}' must be a text, not {value!r}")
    return value


def _options(job: str, table: Mapping[str, object], where: str) -> Mapping[str, object]:
    """A job's own options: Connect's are three tables of the file, all others' are one."""
    tables = _CONNECT_TABLES if job == "connect" else ("options",)
    for name in (*_CONNECT_TABLES, "options"):
        if name in table and name not in tables:
            wanted = ", ".join(f"[{each}]" for each in tables)
            raise PipelineError(f"{where}: the job '{job}' has no table [{name}], but {wanted}")
    if job == "connect":
        return {name: table[name] for name in tables if name in table}
    return cast("Mapping[str, object]", table.get("options", {}))


def _spark(table: Mapping[str, object], where: str) -> SparkSettings:
    settings = flatten(table)
    own: dict[str, Any] = {key: settings.pop(key) for key in ("master", "jars", "packages") if key in settings}
    for key in settings:
        if not key.startswith("spark."):
            raise unknown_key(key, ["master", "jars", "packages", "spark.…"], where)
    conf = {key: as_text(value, where, key) for key, value in settings.items()}
    return parse_table(SparkSettings, {**own, "conf": conf}, where)


def _resolve(value: Any, where: str, environment: Mapping[str, str]) -> Any:
    """``value`` with the variables of the environment replaced in its texts."""
    if isinstance(value, Mapping):
        return {key: _resolve(each, where, environment) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolve(each, where, environment) for each in value]
    if not isinstance(value, str):
        return value

    def look_up(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise PipelineError(f"{where}: the variable {match[1]} of the environment is not set")
        return environment[match[1]]

    return _VARIABLE.sub(look_up, value)
