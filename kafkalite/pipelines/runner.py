"""A run of a pipeline: from its file to its end, with a line of progress at intervals.

Answers to: ``org.apache.kafka.connect.runtime.{Worker,standalone.StandaloneHerder}``. Shell (Spark, signals).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.failures import summary
from kafkalite.pipelines.jobs import JOBS
from kafkalite.pipelines.options import parse_table
from kafkalite.pipelines.pipeline import Pipeline, parse
from kafkalite.pipelines.state import PipelineState, PipelineStatus, QueryStatus, RunState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress

LINE_EVERY = 5.0
"""Seconds from one line of progress to the next."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """A job's module and the options that a file gives it."""

    module: Any
    options: object


def read_pipeline(file: Path) -> Pipeline:
    """Read ``file``. Raises :class:`PipelineError`."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is not UTF-8"
        raise PipelineError(f"{file}: {reason}") from None
    return parse(text, str(file))


def load_job(pipeline: Pipeline) -> Job:
    """The module of ``job`` with its options, checked as far as that needs no Spark.

    Raises :class:`PipelineError`.
    """
    name = JOBS[pipeline.job][0] if pipeline.job in JOBS else pipeline.job
    try:
        module = import_module(name)
    except ImportError as error:
        raise PipelineError(f"{pipeline.where}: job '{pipeline.job}' cannot be imported: {error}") from None
    for wanted in ("Options", "start"):
        if not hasattr(module, wanted):
            raise PipelineError(f"{pipeline.where}: job '{pipeline.job}' is no job: {name} has no '{wanted}'")
    where = pipeline.where if pipeline.job == "connect" else f"{pipeline.where} [options]"
    options = parse_table(module.Options, pipeline.options, where)
    if hasattr(module, "check"):
        module.check(pipeline, options)
    return Job(module, options)


def run(pipeline: Pipeline, base: Path, say: Say, ready: Callable[[], None] = lambda: None) -> None:
    """Run ``pipeline`` until it ends or until SIGTERM or SIGINT; ``ready`` is called once its queries run.

    Raises :class:`PipelineError`.
    """
    state = PipelineState(base, pipeline.name)
    with state.running():
        status = PipelineStatus(pipeline.name, pipeline.job, pipeline.where, os.getpid(), master=pipeline.spark.master)
        state.write(status)
        try:
            Run(pipeline, state, status, say).run(ready)
        except Exception as error:
            status.state, status.error = RunState.FAILED, summary(error)
            if isinstance(error, PipelineError):
                raise
            raise PipelineError(f"{pipeline.name}: {status.error} (see {state.path / 'spark.log'})") from error
        except BaseException:
            status.state = RunState.STOPPED
            raise
        finally:
            status.ended = time.time()
            state.write(status)


class Run:
    """One run of a pipeline, from the session's start to its stop."""

    def __init__(self, pipeline: Pipeline, state: PipelineState, status: PipelineStatus, say: Say) -> None:
        self._pipeline = pipeline
        self._state = state
        self._status = status
        self._say = say
        self._happened = threading.Event()
        # Spark's listener, and functions of micro-batches, run in threads of their own.
        self._lock = threading.Lock()
        self._asked = 0
        self._said = 0.0
        self._lines: dict[str, str] = {}
        self._queries: list[StreamingQuery] = []

    def run(self, ready: Callable[[], None]) -> None:
        """See :func:`run`."""
        with self._signals():
            job = load_job(self._pipeline)
            from kafkalite.pipelines.session import session

            # Set the handlers again, because Spark sets its own for SIGINT, which cancels the running micro-batch.
            with session(self._pipeline, self._state.path / "spark.log") as spark, self._signals():
                self._listen(spark)
                self._start(spark, job)
                self._to(RunState.RUNNING)
                ready()
                self._watch()
                self._end()

    def _start(self, spark: SparkSession, job: Job) -> None:
        from kafkalite.pipelines.context import Context

        context = Context(spark, self._pipeline, self._state.path, self._moved)
        self._queries = job.module.start(context, job.options)
        names = ", ".join(query.name for query in self._queries)
        what = f"{job.module.describe(job.options)}; " if hasattr(job.module, "describe") else ""
        self._say(f"{self._pipeline.name}: {what}queries {names}, state in {self._state.path}")

    def _listen(self, spark: SparkSession) -> None:
        from kafkalite.pipelines.progress import ProgressListener

        spark.streams.addListener(ProgressListener(self._progressed, lambda _: self._happened.set()))

    def _progressed(self, name: str, progress: StreamingQueryProgress) -> None:
        from kafkalite.pipelines.progress import advance

        with self._lock:
            advance(self._status.queries.setdefault(name, QueryStatus()), progress, time.time())
        self._happened.set()

    def _moved(self, name: str, rows: int) -> None:
        with self._lock:
            self._status.queries.setdefault(name, QueryStatus()).rows += rows

    def _watch(self) -> None:
        """Wait until all queries have ended, one has failed, or a stop was requested."""
        while not self._asked and all(query.exception() is None for query in self._queries):
            if not any(query.isActive for query in self._queries):
                return
            self._happened.wait()
            self._happened.clear()
            self._report()

    def _end(self) -> None:
        """Let every running micro-batch finish, then stop; raise the error of a failed query."""
        asked = self._asked
        if asked:
            self._to(RunState.STOPPING)
            self._say(f"{self._pipeline.name}: stopping after the running micro-batches")
        batches = {query.name: self._batch(query) for query in self._queries}
        for query in self._queries:
            while self._asked < 2 and self._is_busy(query) and self._batch(query) == batches[query.name]:
                self._happened.wait(0.1)
                self._happened.clear()
            query.stop()
        failed = next(filter(None, (query.exception() for query in self._queries)), None)
        self._report(last=True)
        if failed is not None:
            raise PipelineError(f"{self._pipeline.name}: {summary(failed)} (see {self._state.path / 'spark.log'})")
        self._to(RunState.STOPPED if asked else RunState.FINISHED)
        self._say(f"{self._pipeline.name}: {self._status.state.value}")

    def _is_busy(self, query: StreamingQuery) -> bool:
        return bool(query.isActive and query.status["isTriggerActive"])

    def _batch(self, query: StreamingQuery) -> int:
        return self._status.queries.get(query.name, QueryStatus()).batch

    def _to(self, state: RunState) -> None:
        with self._lock:
            self._status.state = state
            self._state.write(self._status)

    def _report(self, *, last: bool = False) -> None:
        from kafkalite.pipelines.progress import line

        now = time.monotonic()
        if now - self._said < LINE_EVERY and not last:
            return
        self._said = now
        with self._lock:
            self._state.write(self._status)
            lines = {name: line(name, status) for name, status in self._status.queries.items()}
        for name, text in lines.items():
            if self._lines.get(name) != text:
                self._lines[name] = text
                self._say(text)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT: the first requests a stop, the second an immediate one."""

        def ask(*_: object) -> None:
            self._asked += 1
            self._happened.set()
            if not self._queries or self._asked > 2:
                raise KeyboardInterrupt

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
