"""What a Python process of Spark's no longer does again and again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest

from kafkalite.spark import housekeeping


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


def _run_as(monkeypatch: pytest.MonkeyPatch, module: str) -> list[None]:
    asked: list[None] = []
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(module, None))
    monkeypatch.setattr(housekeeping, "keep_directories", lambda: asked.append(None))
    return asked


@pytest.mark.parametrize("module", ["pyspark.daemon", "kafkalite.spark.daemon"])
def test_what_is_there_is_frozen_once(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _run_as(monkeypatch, module)
    housekeeping.settle()
    count = gc.get_freeze_count()
    assert count > 1000
    later: list[list[None]] = [[] for _ in range(1000)]
    housekeeping.settle()
    assert 0 < gc.get_freeze_count() <= count < count + len(later)
    assert len(asked) == 2  # archives that came later


def test_another_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _run_as(monkeypatch, "pytest")
    housekeeping.settle()
    assert gc.get_freeze_count() == 0
    assert not asked
