"""The options of Spark's Kafka source, read as Spark reads them.

Answers to: ``org.apache.spark.sql.kafka010.KafkaSourceProvider``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkalite.spark.client.config import ClientConfig


class OptionError(ValueError):
    """An option that is refused; the text is Spark's own where Spark has one."""


@dataclass(frozen=True)
class SourceOptions:
    """What a reader must know."""

    client: ClientConfig

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """From the options of a DataFrame reader, names in any case. Raises :class:`OptionError`."""
        raise NotImplementedError
