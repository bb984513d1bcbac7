"""Files and jobs before Spark starts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.jobs import JOBS
from kafkalite.pipelines.pipeline import Pipeline
from kafkalite.pipelines.runner import load_job, read_pipeline


@dataclass(frozen=True)
class Options:
    """The options of a user's own job."""

    topic: str


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A job that can be imported, and has all that it must."""
    made = ModuleType("somebodys.job")
    made.Options, made.start = Options, lambda _context, _options: []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "somebodys", ModuleType("somebodys"))
    monkeypatch.setitem(sys.modules, "somebodys.job", made)
    return made


def pipeline(job: str = "somebodys.job") -> Pipeline:
    return Pipeline("p", job, {"bootstrap.servers": "h:1"}, options={"topic": "t"}, where="p.toml")


def test_a_job_of_ones_own(module: ModuleType) -> None:
    job = load_job(pipeline())
    assert job.module is module
    assert job.options == Options("t")


def test_a_job_that_cannot_be(module: ModuleType) -> None:
    """The job's own check, which needs no Spark, was called."""

    def check(asked: Pipeline, options: Options) -> None:
        raise PipelineError(f"{asked.where}: no {options.topic}")

    module.check = check  # type: ignore[attr-defined]
    with pytest.raises(PipelineError, match=r"^p\.toml: no t$"):
        load_job(pipeline())


def test_an_invalid_job_is_refused(module: ModuleType) -> None:
    del module.start
    with pytest.raises(PipelineError, match=r"is no job: somebodys\.job has no 'start'$"):
        load_job(pipeline())
    with pytest.raises(PipelineError, match=r"^p\.toml: job 'nobodys\.job' cannot be imported: No module named"):
        load_job(pipeline("nobodys.job"))


@pytest.mark.parametrize("name", JOBS)
def test_every_job_is_one(name: str) -> None:
    """The jobs of the table exist, and their only error is the missing options."""
    with pytest.raises(PipelineError, match=r"^p\.toml( \[\w+\])?: (the key|unknown key)"):
        load_job(Pipeline("p", name, {"bootstrap.servers": "h:1"}, options={"nobody_has_this": 1}, where="p.toml"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"p\.toml: No such file or directory$"):
        read_pipeline(tmp_path / "p.toml")
    (tmp_path / "p.toml").write_bytes(b"\xff")
    with pytest.raises(PipelineError, match=r"p\.toml: this is not UTF-8$"):
        read_pipeline(tmp_path / "p.toml")
