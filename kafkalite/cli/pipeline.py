"""``kafkalite pipeline run FILE | list | status | stop``: data pipelines on Spark.

Answers to: ``connect-standalone.sh`` and the REST interface of Kafka Connect's workers. Reactor shell (processes).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.cli.clients import add_json, print_json, print_table
from kafkalite.common.errors import StartupError

if TYPE_CHECKING:
    from kafkalite.pipelines.state import PipelineState, PipelineStatus

READY = b"running"
EXAMPLES = (
    "kafkalite pipeline run flights-in.toml --once",
    "kafkalite pipeline list",
    "kafkalite pipeline status flights-in",
    "kafkalite pipeline stop flights-in",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``pipeline`` with its actions."""
    parser = subparsers.add_parser("pipeline", help="run, list, show or stop data pipelines on Spark")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    start = actions.add_parser("run", help="run the pipeline of a TOML file; what it did before is not done again")
    start.add_argument("file", type=Path, metavar="FILE.toml")
    start.add_argument("--master", metavar="URL", help="Spark's master, instead of the file's")
    start.add_argument("--once", action="store_true", help="end when all that there is now is done")
    start.add_argument("--background", action="store_true", help="come back when the pipeline runs; it goes on")
    start.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    listed = actions.add_parser("list", help="show what has run here, and the jobs and examples that there are")
    status = actions.add_parser("status", help="show how far pipelines are; exit code 1 where one has failed")
    status.add_argument("name", nargs="?", metavar="NAME")
    stop = actions.add_parser("stop", help="stop a pipeline after its running micro-batch, and wait for its end")
    stop.add_argument("name", metavar="NAME")
    for each in (listed, status):
        add_json(each)
    for each in (start, listed, status, stop):
        each.add_argument("--state", type=Path, metavar="DIR", help="where pipelines keep their state on this machine")


def run(args: argparse.Namespace) -> int:
    """Run the action of the arguments."""
    from kafkalite.pipelines.state import default_base

    args.base = args.state or default_base()
    return {"run": start, "list": show_list, "status": show_status, "stop": stop}[args.action](args)


def start(args: argparse.Namespace) -> int:
    """``pipeline run``."""
    if find_spec("pyspark") is None:
        raise StartupError("PySpark is missing: pip install 'kafkalite[spark]'")
    from kafkalite.pipelines.runner import read_pipeline, run

    pipeline = read_pipeline(args.file)
    if args.background:
        return start_in_background(args, pipeline.name)
    if args.once:
        pipeline = pipeline.with_once()
    if args.master:
        pipeline = pipeline.with_master(args.master)

    def ready() -> None:
        if args.ready_fd is not None:
            os.write(args.ready_fd, READY)
            os.close(args.ready_fd)

    run(pipeline, args.base, say, ready)
    return 0


def say(text: str) -> None:
    """Print a line of a run, with the time."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def start_in_background(args: argparse.Namespace, name: str) -> int:
    """Run the same command as a new process until it reports that it runs; otherwise print its last line."""
    folder = args.base / name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "run.log"
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "kafkalite.cli.main", "pipeline", "run", str(args.file), "--state", str(args.base)]
    command += ["--ready-fd", str(writer), *(["--once"] if args.once else [])]
    command += ["--master", args.master] if args.master else []
    begin = log.stat().st_size if log.exists() else 0
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, pass_fds=[writer]
        )
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read(len(READY))
    if said == READY:
        print(f"{name} runs in the background (process {process.pid}), log in {log}")
        return 0
    code = process.wait()
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode(errors="replace").splitlines()
    if code:
        print(lines[-1] if lines else f"kafkalite pipeline: {name} ended with {code}, see {log}", file=sys.stderr)
    return code


def show_list(args: argparse.Namespace) -> int:
    """``pipeline list``."""
    from kafkalite.pipelines.jobs import JOBS, examples
    from kafkalite.pipelines.state import all_pipelines

    statuses = [status for state in all_pipelines(args.base) if (status := state.read()) is not None]
    if args.json:
        print_json(
            {
                "pipelines": [asdict(status) for status in statuses],
                "jobs": {name: text for name, (_, text) in JOBS.items()},
                "examples": [str(path) for path in examples()],
            }
        )
        return 0
    if statuses:
        rows: list[list[object]] = [[each.name, each.job, each.state.value, each.file] for each in statuses]
        print_table(["PIPELINE", "JOB", "STATE", "FILE"], rows)
        print()
    print_table(["JOB", ""], [[name, text] for name, (_, text) in JOBS.items()])
    print()
    print_table(["EXAMPLE"], [[path] for path in examples()])
    return 0


def show_status(args: argparse.Namespace) -> int:
    """``pipeline status``."""
    from kafkalite.pipelines.state import RunState, all_pipelines

    states = [known(args)] if args.name else all_pipelines(args.base)
    statuses = [status for state in states if (status := state.read()) is not None]
    if args.json:
        print_json([asdict(status) for status in statuses])
    else:
        for status in statuses:
            describe(status)
        if not statuses:
            print(f"no pipeline has run here ({args.base})")
    return int(any(status.state in (RunState.FAILED, RunState.DIED) for status in statuses))


def describe(status: PipelineStatus) -> None:
    """Print one pipeline, for people."""
    until = f" to {clock(status.ended)}" if status.ended else ""
    print(f"{status.name} ({status.job}, {status.file}): {status.state.value}, process {status.pid}")
    print(f"  from {clock(status.started)}{until} on {status.master}")
    if status.error:
        print(f"  {status.error}")
    rows: list[list[object]] = [
        [
            f"  {name}",
            query.rows,
            f"{query.rate:.0f}",
            "-" if query.lag is None else query.lag,
            query.bad,
            clock(query.at),
        ]
        for name, query in status.queries.items()
    ]
    if rows:
        print_table(["  QUERY", "ROWS", "ROWS/S", "LAG", "BAD", "AT"], rows)


def clock(seconds: float) -> str:
    """A time in this machine's time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def stop(args: argparse.Namespace) -> int:
    """``pipeline stop``."""
    state = known(args)
    status = state.read()
    if status is None or not state.is_running():
        print(f"{args.name} is not running")
        return 0
    os.kill(status.pid, signal.SIGTERM)
    state.wait_for_end()
    ended = state.read()
    print(f"{args.name} {ended.state.value if ended else 'stopped'}")
    return 0


def known(args: argparse.Namespace) -> PipelineState:
    """The state of the named pipeline. Raises ``StartupError`` if it never ran."""
    from kafkalite.pipelines.state import PipelineState

    state = PipelineState(args.base, args.name)
    if state.read() is None:
        raise StartupError(f"no pipeline '{args.name}' has run here ({args.base})")
    return state
