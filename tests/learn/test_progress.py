"""The progress of a student is kept in a file, whose place the environment decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.learn.catalog import Catalog
from kafkalite.learn.course import Course
from kafkalite.learn.progress import Progress, state_directory
from tests.learn.test_catalog import lab_folder


def test_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    progress = Progress.read(tmp_path)
    progress.current = "a"
    progress.of("a").prediction = "b"
    progress.of("a").hints = 2
    progress.write()
    assert Progress.read(tmp_path) == progress


@pytest.mark.parametrize("text", ["{", "[]", '{"current": ""}', '{"current": "", "labs": {"a": {"x": 1}}}'])
def test_a_damaged_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text(text)
    with pytest.raises(StartupError, match=r"progress\.json is damaged"):
        Progress.read(tmp_path)


def test_the_place_is_the_flag_then_the_variable_then_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKALITE_LEARN_STATE", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_directory(tmp_path / "flag") == tmp_path / "flag"
    assert state_directory(None) == tmp_path / "variable"
    monkeypatch.delenv("KAFKALITE_LEARN_STATE")
    assert state_directory(None) == tmp_path / "xdg" / "kafkalite" / "learn"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_directory(None) == tmp_path / ".local" / "state" / "kafkalite" / "learn"


def test_a_prediction_is_one_of_the_choices_and_cannot_be_changed(tmp_path: Path) -> None:
    (tmp_path / "labs").mkdir()
    catalog = Catalog([lab_folder(tmp_path / "labs")])
    course = Course(catalog, tmp_path / "state")
    loaded = catalog.load("my-lab")
    with pytest.raises(StartupError, match="choose one of a, b"):
        course.predict(loaded, "c")
    course.predict(loaded, "a")
    with pytest.raises(StartupError, match="'a' already"):
        course.predict(loaded, "b")
    assert Progress.read(tmp_path / "state").of("my-lab").prediction == "a"


def test_without_a_running_lab_the_commands_say_so(tmp_path: Path) -> None:
    course = Course(Catalog(), tmp_path)
    with pytest.raises(StartupError, match="no lab is running"):
        course.running()
    with pytest.raises(StartupError, match="is gone"):
        course.workspace()
    assert course.stop() is False
