"""A pipeline's folder: one run at a time, and what is known of a run that died."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.state import PipelineState, PipelineStatus, QueryStatus, RunState, all_pipelines, default_base

HOLD = """
import sys
from pathlib import Path
from kafkalite.pipelines.state import PipelineState
with PipelineState(Path(sys.argv[1]), "p").running():
    print("running", flush=True)
    sys.stdin.read()
"""


def status(state: RunState = RunState.RUNNING) -> PipelineStatus:
    return PipelineStatus(
        "p", "connect", "p.toml", os.getpid(), state, queries={"p.connect": QueryStatus(rows=3, batch=1)}
    )


def test_a_written_state_is_read(tmp_path: Path) -> None:
    state, said = PipelineState(tmp_path, "p"), status()
    assert state.read() is None
    with state.running():
        state.write(said)
        assert state.read() == said
    assert [each.name for each in all_pipelines(tmp_path)] == ["p"]


def test_a_run_that_ended_without_a_word_has_died(tmp_path: Path) -> None:
    state = PipelineState(tmp_path, "p")
    with state.running():
        state.write(status())
    died = state.read()
    assert died is not None
    assert died.state is RunState.DIED
    state.write(status(RunState.STOPPED))
    stopped = state.read()
    assert stopped is not None
    assert stopped.state is RunState.STOPPED


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """Another process is refused, and may wait for the end."""
    state = PipelineState(tmp_path, "p")
    assert not state.is_running()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "running\n"
    assert state.is_running()
    with pytest.raises(PipelineError, match="pipeline 'p' is running: kafkalite pipeline stop p"), state.running():
        pass
    holder.communicate()
    state.wait_for_end()
    with state.running():
        pass


def test_a_run_starts_although_another_process_looks_at_that_moment_whether_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = PipelineState(tmp_path, "p")
    with state.running():
        pass
    with (tmp_path / "p" / "lock").open() as glance:
        fcntl.flock(glance, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(glance, fcntl.LOCK_UN))
        with state.running():
            assert state.is_running()


def test_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "status.json").write_text("{")
    with pytest.raises(PipelineError, match=r"status\.json is damaged: remove it"):
        PipelineState(tmp_path, "p").read()


def test_the_folder_of_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALITE_STATE", "/somewhere")
    assert default_base() == Path("/somewhere")
    monkeypatch.delenv("KAFKALITE_STATE")
    assert default_base() == Path.home() / ".local/state/kafkalite/pipelines"
