"""Spark's daemon with this package's modules: which packages its programs see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kafkalite.spark import daemon

LOOKUP = Path(daemon.__file__).with_name("lookup")


def test_a_source_tree_has_its_package_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    daemon.show_package()
    assert sys.path == [str(tmp_path), str(LOOKUP)]


def test_the_path_stays_where_the_package_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyspark_kafkalite").mkdir()
    (tmp_path / "pyspark_kafkalite" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    daemon.show_package()
    assert sys.path == [str(tmp_path)]
