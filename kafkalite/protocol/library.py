"""kafka-python's message classes without the rest of kafka-python.

Answers to: nothing in Kafka; it keeps an idle broker small. Pure.

``import kafka`` brings the library's consumer, producer and admin client along, and each of its protocol
packages parses the schemas of all its messages (10 MB resident together). The codec needs one module at a time.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType


def protocol_module(name: str) -> ModuleType:
    """The module ``kafka.protocol.<name>``, imported now if it was not. Raises ``ImportError``."""
    full = f"kafka.protocol.{name}"
    loaded = sys.modules.get(full)
    if loaded is not None:
        return loaded
    # A package object that was never executed is enough to find the submodules by. It must not stay, because a
    # later import of the whole package has to load it, with the submodules that are loaded already.
    hollow = []
    try:
        for package in ("kafka", full.rpartition(".")[0]):
            if package not in sys.modules:
                spec = importlib.util.find_spec(package)
                if spec is None:
                    raise ImportError("kafka-python is not installed")
                sys.modules[package] = importlib.util.module_from_spec(spec)
                hollow.append(package)
        return importlib.import_module(full)
    finally:
        for package in hollow:
            del sys.modules[package]
