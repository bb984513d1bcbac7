"""Spark's data source ``kafkalite``: topics as DataFrames, read and written by plain Kafka clients.

``from kafkalite.spark import KafkaliteDataSource`` imports no Spark; the first use of the class does.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from kafkalite.spark.archives import keep_directories

__all__ = ["KafkaliteDataSource"]

keep_directories()


class DeferredClass:
    """A class whose module is imported when the class is first called, read, subclassed or pickled.

    A pickle names the class itself, because Spark's Python processes accept only subclasses of ``DataSource``.
    Each use raises ``ImportError`` if the module needs a library that is not installed.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def load(self) -> type:
        """The class itself."""
        return _load(self._module, self._name)

    def __call__(self, *arguments: object, **named: object) -> object:
        return self.load()(*arguments, **named)

    def __getattr__(self, attribute: str) -> object:
        return getattr(self.load(), attribute)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (self.load(),)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self.load())

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self.load())

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return _load, (self._module, self._name)

    def __repr__(self) -> str:
        return f"<deferred class '{self._module}.{self._name}'>"


def _load(module: str, name: str) -> type:
    try:
        found: type = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise ImportError(
            f"kafkalite.spark.{name} needs PySpark 4.1 or newer, which is not installed for {sys.executable}: "
            "pip install 'kafkalite[spark]'",
            name=error.name,
        ) from error
    return found


if TYPE_CHECKING:
    from kafkalite.spark.source import KafkaliteDataSource
else:
    KafkaliteDataSource = DeferredClass("kafkalite.spark.source", "KafkaliteDataSource")
