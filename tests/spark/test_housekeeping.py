"""Work that a Python process of Spark does once, not for each task."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from kafkalite.spark import housekeeping


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    housekeeping._freeze.cache_clear()
    yield
    housekeeping._freeze.cache_clear()
    gc.unfreeze()


def _run_as(monkeypatch: pytest.MonkeyPatch, module: str) -> list[None]:
    asked: list[None] = []
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(module, None))
    monkeypatch.setattr(housekeeping, "keep_directories", lambda: asked.append(None))
    return asked


@pytest.mark.parametrize("module", ["pyspark.daemon", "kafkalite.spark.daemon"])
def test_existing_objects_are_frozen_once(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _run_as(monkeypatch, module)
    housekeeping.freeze_objects()
    count = gc.get_freeze_count()
    assert count > 1000
    later: list[list[None]] = [[] for _ in range(1000)]
    housekeeping.freeze_objects()
    assert 0 < gc.get_freeze_count() <= count < count + len(later)
    assert len(asked) == 2  # archives that came later


def test_another_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _run_as(monkeypatch, "pytest")
    housekeeping.freeze_objects()
    assert gc.get_freeze_count() == 0
    assert not asked


@pytest.mark.skipif(not housekeeping._SMAPS.exists(), reason="no /proc here")
def test_released_code_is_read_again_when_it_runs() -> None:
    import sqlite3

    def held() -> int:
        """KB of the library's code that are in memory."""
        entry, total = False, 0
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if ":" not in line.split()[0] or "-" in line.split()[0]:
                entry = "libsqlite3" in line and " r-xp " in line
            elif entry and line.startswith("Rss:"):
                total += int(line.split()[1])
        return total

    def query() -> list[tuple[int]]:
        with sqlite3.connect(":memory:") as database:
            return database.execute("SELECT 6 * 7").fetchall()

    assert query() == [(42,)]
    before = held()
    if not before:
        pytest.skip("this Python has SQLite built in")
    housekeeping.release_libraries()
    assert held() < before
    assert query() == [(42,)]
    assert held() > 0


MAPPING = """\
1000-3000 {access} 00000000 fe:00 247026                     {path}
Size:                  8 kB
Anonymous:             {anonymous} kB
Swap:                  {swap} kB
VmFlags: rd mr mw me
"""


@pytest.mark.parametrize(
    ("access", "path", "anonymous", "swap", "clean"),
    [
        ("r-xp", "/usr/lib/libc.so.6", 0, 0, True),
        ("r--p", "/a folder/lib c.so", 0, 0, True),
        ("r--p", "/usr/lib/libc.so.6", 4, 0, False),  # relocated, and then protected
        ("r--p", "/usr/lib/libc.so.6", 0, 4, False),  # the same, and swapped out
        ("rw-p", "/usr/lib/libc.so.6", 0, 0, False),
        ("r--p", "", 0, 0, False),
        ("r-xp", "[vdso]", 0, 0, False),
    ],
)
def test_only_pages_equal_to_the_file_are_released(
    access: str, path: str, anonymous: int, swap: int, clean: bool
) -> None:
    dirty = MAPPING.format(access="rw-p", path="/x", anonymous=8, swap=0)
    lines = MAPPING.format(access=access, path=path, anonymous=anonymous, swap=swap)
    found = list(housekeeping._clean_files((dirty + lines + dirty).splitlines()))
    assert found == ([(0x1000, 0x2000)] if clean else [])
