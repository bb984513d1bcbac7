"""``python -m kafkalite.testing.simulation``: many histories, one history told as a story, or a failing one shrunk.

Answers to: nothing in Kafka. The operating system's side of the simulation: child processes and the clock on the wall.

Every history runs in its own child process, because the dead processes of a history are never freed.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path

from kafkalite.testing.simulation.coverage import coverage
from kafkalite.testing.simulation.plan import Plan, draw_plan
from kafkalite.testing.simulation.run import HistoryOutcome, run_history
from kafkalite.testing.simulation.shrinking import shrink

_LIMIT = 600.0
"""Seconds of real time after which a history is given up as hanging. It needs seconds of a shared processor."""
_FORK = multiprocessing.get_context("fork")


class Child:
    """One history in its own process."""

    def __init__(self, plan: Plan, story: bool = False) -> None:
        self.plan = plan
        self.started = time.monotonic()
        self.connection, theirs = _FORK.Pipe(duplex=False)
        self._process = _FORK.Process(target=_child, args=(plan, story, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def outcome(self) -> HistoryOutcome:
        """The history's outcome; blocks until it is over, or hangs."""
        try:
            if not self.connection.poll(max(0.0, self.started + _LIMIT - time.monotonic())):
                self._process.kill()
                return HistoryOutcome(self.plan.seed, [f"the history did not end within {_LIMIT:g} s"])
            outcome = self.connection.recv()
            assert isinstance(outcome, HistoryOutcome)
        except EOFError:
            self._process.join()
            return HistoryOutcome(self.plan.seed, [f"the process of the history ended with {self._process.exitcode}"])
        else:
            return outcome
        finally:
            self.connection.close()
            self._process.join()


def _child(plan: Plan, story: bool, connection: Connection) -> None:
    # No garbage collection, because no finalizer of a process that died in the history may run.
    gc.disable()
    connection.send(run_history(plan, story=story))
    connection.close()


def run_alone(plan: Plan, story: bool = False) -> HistoryOutcome:
    """Run one history in a child process."""
    return Child(plan, story).outcome()


def run_many(seeds: Iterable[int], jobs: int) -> Iterator[HistoryOutcome]:
    """Run the histories of ``seeds``, ``jobs`` at a time; outcomes come as they end."""
    waiting = iter(seeds)
    running: list[Child] = []
    while True:
        while len(running) < jobs:
            seed = next(waiting, None)
            if seed is None:
                break
            running.append(Child(draw_plan(seed)))
        if not running:
            return
        ready = wait([child.connection for child in running], _LIMIT / 4)
        over = time.monotonic() - _LIMIT
        for child in [child for child in running if child.connection in ready or child.started < over]:
            running.remove(child)
            yield child.outcome()


def warm_up() -> None:
    """Run one history in this process, because each child would otherwise compile the codecs of its messages again."""
    run_history(draw_plan(0))


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0 if nothing was violated."""
    parser = argparse.ArgumentParser(prog="python -m kafkalite.testing.simulation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seeds", metavar="A..B", help="run the histories of these seeds, both included")
    what.add_argument("--seed", type=int, metavar="N", help="run one history")
    what.add_argument("--coverage", metavar="A..B", help="count which disorder meets which guarantee; runs nothing")
    what.add_argument("--shrink", type=int, metavar="N", help="find the fewest steps and clients with which it fails")
    parser.add_argument("--jobs", type=int, default=1, help="histories at a time")
    parser.add_argument("--trace", action="store_true", help="with --seed: tell the history as a story")
    parser.add_argument("--stop-at-first", action="store_true", help="with --seeds: end after the first violation")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each history")
    args = parser.parse_args(arguments)
    if args.seeds is not None:
        return _campaign(_range(parser, args.seeds), args.jobs, args.stop_at_first, args.json)
    if args.coverage is not None:
        print(coverage(_range(parser, args.coverage)))
        return 0
    if args.seed is not None:
        return _one(args.seed, args.trace, args.json)
    return _shrink(args.shrink)


def _range(parser: argparse.ArgumentParser, text: str) -> range:
    first, _, last = text.partition("..")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        parser.error(f"--seeds {text}: not a range of numbers such as 1..500")


def _campaign(seeds: range, jobs: int, stop_at_first: bool, as_json: bool) -> int:
    started, outcomes = time.monotonic(), []
    warm_up()
    for outcome in run_many(seeds, jobs):
        outcomes.append(outcome)
        if as_json:
            print(_as_json(outcome), flush=True)
        elif outcome.violations:
            print(_failure(outcome), flush=True)
        elif len(outcomes) % 50 == 0:
            rate = len(outcomes) / (time.monotonic() - started) * 60
            print(f"{len(outcomes)} of {len(seeds)} histories, {rate:.0f} a minute", file=sys.stderr, flush=True)
        if outcome.violations and stop_at_first:
            break
    count = len(outcomes)
    failed = sum(bool(outcome.violations) for outcome in outcomes)

    def mean(name: str) -> float:
        return float(sum(getattr(outcome, name) for outcome in outcomes)) / max(1, count)

    print(
        f"{count} histories, {failed} violations; means of a history: {mean('events'):,.0f} events, "
        f"{mean('acknowledged'):,.0f} acknowledged records, {mean('operations'):,.0f} operations, "
        f"{mean('faults'):.1f} faults, {mean('seconds'):.1f} virtual s; "
        f"{count / (time.monotonic() - started) * 60:.0f} histories a minute"
    )
    return 1 if failed else 0


def _one(seed: int, trace: bool, as_json: bool) -> int:
    outcome = run_alone(draw_plan(seed), story=trace)
    if as_json:
        print(_as_json(outcome))
        return 1 if outcome.violations else 0
    for line in outcome.story:
        print(line)
    if outcome.violations:
        print(_failure(outcome))
    print(
        f"1 histories, {int(bool(outcome.violations))} violations; {outcome.events:,} events, "
        f"{outcome.acknowledged:,} acknowledged records, {outcome.faults} faults, {outcome.seconds:.1f} virtual s, "
        f"trace {outcome.digest}"
    )
    return 1 if outcome.violations else 0


def _shrink(seed: int) -> int:
    plan = draw_plan(seed)
    if not run_alone(plan).violations:
        print(f"seed {seed} fails with no violation: nothing is to be shrunk")
        return 0
    pieces = [("step", index) for index in range(len(plan.steps))]
    pieces += [("client", index) for index in range(len(plan.clients))]

    def keep(chosen: list[tuple[str, int]]) -> Plan:
        return plan.keep(
            [index for kind, index in chosen if kind == "step"], [index for kind, index in chosen if kind == "client"]
        )

    def fails(chosen: list[tuple[str, int]]) -> bool:
        found = bool(run_alone(keep(chosen)).violations)
        print(f"{len(chosen)} pieces: {'fails' if found else 'holds'}", file=sys.stderr, flush=True)
        return found

    smallest = shrink(pieces, fails)
    steps = [index for kind, index in smallest if kind == "step"]
    clients = [index for kind, index in smallest if kind == "client"]
    for step in keep(smallest).steps:
        print(f"# at {step.at:.3f} s: {step.scenario}")
    for client in keep(smallest).clients:
        print(f"# at {client.at:.3f} s: a client of kind {client.kind}")
    print(f"def test_seed_{seed}() -> None:")
    print(f"    outcome = run_history(draw_plan({seed}).keep(steps={steps}, clients={clients}))")
    print("    assert not outcome.violations")
    print(_failure(run_alone(keep(smallest))))
    return 1


def _failure(outcome: HistoryOutcome) -> str:
    lines = "\n".join(f"  {line}" for line in outcome.violations[:8])
    more = len(outcome.violations) - 8
    return f"seed {outcome.seed} at revision {_revision()}:\n{lines}" + (f"\n  and {more} more" if more > 0 else "")


def _as_json(outcome: HistoryOutcome) -> str:
    return json.dumps({key: value for key, value in asdict(outcome).items() if key != "story"})


def _revision() -> str:
    """The revision of the checkout that this file is in, or ``unknown``."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
