"""Strangers at every kind of secured listener: bad bytes, half handshakes, connections that never authenticate.

They cost little memory and no traceback, and clients that log in are served throughout. The short form sends few
pieces, to all listeners at once. ``KAFKALITE_SOAK=1`` (``make soak``) sends 20,000 to each listener, opens 5,000
connections at each, and holds a client's latency with them against that without. ``KAFKALITE_SEED`` repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

from integration.conftest import SOAK
from integration.harness.wait import wait_for
from integration.security.healthy import ALONE, AMONG, CONNECTING, HealthyClient
from integration.security.secured_broker import LISTENERS, SecuredBroker
from integration.security.strangers import CORE, start_loiterers, start_strangers

pytestmark = [pytest.mark.kafkalite_only, *([pytest.mark.soak] if SOAK else [])]
MEGA = 1 << 20
GROWTH = 64 * MEGA
"""Bytes by which the broker's memory may grow."""
WINDOW = 2.0
"""Seconds for which the strangers pause, and then go on, while the latency is measured."""
PIECES, LOITERERS = (20_000, 5_000) if SOAK else (60, 60)
"""Of each listener."""
ROUNDS = 3 if SOAK else 1
"""How often the loiterers come and go."""
AT_ONCE = [(name,) for name in LISTENERS] if SOAK else [tuple(LISTENERS)]
"""The listeners of one test."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """One broker for all tests."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    made = SecuredBroker(tmp_path_factory.mktemp("strangers"))
    yield made
    made.cluster.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture(scope="module")
def seed() -> int:
    """Of this run."""
    return int(os.environ.get("KAFKALITE_SEED") or random.SystemRandom().randrange(1 << 30))


class Scene:
    """Healthy clients at some listeners of the broker, and what became of them and of its memory."""

    def __init__(self, broker: SecuredBroker, names: Sequence[str], seed: int) -> None:
        self._broker = broker
        self._names = names
        # So that memory which a broker needs once does not count.
        for name in names:
            broker.login(name).close()
        self._cores = os.sched_getaffinity(0)
        if SOAK:
            for name in names:
                start_strangers(broker.door(name), seed, 200).communicate()
            self._leave_a_core_to_the_reactor()
        self._before = broker.memory
        self._healthy = [HealthyClient(broker, name) for name in names]

    def _leave_a_core_to_the_reactor(self) -> None:
        """All that would be on other machines than the broker runs on one core, and so do its own further threads."""
        os.sched_setaffinity(self._broker.process.pid, self._cores - {CORE} or self._cores)
        os.sched_setaffinity(0, {CORE})

    def begin(self, phase: str) -> None:
        """What the clients measure from now on belongs to ``phase``."""
        for client in self._healthy:
            client.begin(phase)

    def take_turns(self, senders: Sequence[subprocess.Popen[str]]) -> None:
        """Let the senders work and pause until they have ended."""
        while any(sender.poll() is None for sender in senders):
            self.begin(AMONG)
            time.sleep(WINDOW)
            self.begin("at the changes")
            for sender in senders:
                sender.send_signal(signal.SIGSTOP)
            time.sleep(WINDOW / 4)
            self.begin(ALONE)
            time.sleep(WINDOW)
            self.begin("at the changes")
            for sender in senders:
                sender.send_signal(signal.SIGCONT)
            time.sleep(WINDOW / 4)

    def end(self, what: str) -> None:
        """All requests of the clients were served, the broker has grown little, and its log names no failure."""
        measured = [client.stop() for client in self._healthy]
        os.sched_setaffinity(0, self._cores)
        growth = max(self._broker.memory, *(each.memory for each in measured)) - self._before
        took: defaultdict[str, list[float]] = defaultdict(list)
        for each in measured:
            for phase, seconds in each.took.items():
                took[phase] += seconds
        logins = [seconds for each in measured for seconds in each.logins]
        figures = "; ".join(
            f"{phase} p50 {percentile(seconds, 0.5):.2f} ms, p99 {percentile(seconds):.2f} ms"
            for phase, seconds in took.items()
        )
        print(
            f"\n{', '.join(self._names)}: {what}; memory grew by {growth / MEGA:.1f} MB; healthy clients: {figures}; "
            f"slowest of {len(logins)} logins {1000 * max(logins):.0f} ms",
            flush=True,
        )
        assert growth < GROWTH
        assert self._broker.complaints() == []
        if SOAK:
            for phase in (CONNECTING, AMONG):
                assert percentile(took[phase]) < 2 * percentile(took[ALONE]), f"the p99 {phase}"


def percentile(values: list[float], share: float = 0.99) -> float:
    """In ms."""
    return 1000 * sorted(values)[int(len(values) * share)] if values else 0.0


@pytest.mark.parametrize("names", AT_ONCE, ids="-".join)
def test_every_stranger_is_sent_away(broker: SecuredBroker, seed: int, names: tuple[str, ...]) -> None:
    """And other clients of the listener are served meanwhile."""
    scene = Scene(broker, names, seed)
    begun = time.monotonic()
    halves = (1, 2) if SOAK else (1,)
    senders = [
        start_strangers(broker.door(name), seed + half, PIECES // len(halves)) for name in names for half in halves
    ]
    scene.take_turns(senders if SOAK else [])
    results = [json.loads(sender.communicate()[0]) for sender in senders]
    kinds = sum((Counter(result["kinds"]) for result in results), Counter[str]())
    print("\n" + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    scene.end(f"{kinds.total()} pieces in {time.monotonic() - begun:.0f} s (KAFKALITE_SEED={seed})")
    assert [line for result in results for line in result["unended"]] == []
    assert kinds.total() == PIECES * len(names)


@pytest.mark.parametrize("names", AT_ONCE, ids="-".join)
def test_connections_that_never_authenticate_cost_little(
    broker: SecuredBroker, seed: int, names: tuple[str, ...]
) -> None:
    """Silent ones, and such as stop in every state on the way to a login."""
    scene = Scene(broker, names, seed)
    opened: Counter[str] = Counter()
    kept = []
    for number in range(ROUNDS):
        scene.begin(ALONE)
        time.sleep(2 * WINDOW if SOAK else 0)
        scene.begin(CONNECTING)
        with ExitStack() as stack:
            loiterers = [
                stack.enter_context(start_loiterers(broker.door(name), seed + number, LOITERERS)) for name in names
            ]
            for each in loiterers:
                assert each.stdout is not None
                opened += Counter(json.loads(each.stdout.readline()))
            # The handshakes that they have begun are worked off.
            time.sleep(2 * WINDOW if SOAK else 0)
            scene.begin(AMONG)
            time.sleep(2 * WINDOW if SOAK else 0)
            scene.begin("while they are counted")
            kept.append(broker.connections)
            scene.begin("while they go")
            for each in loiterers:
                each.communicate("")
        wait_for(lambda: broker.connections <= 2 * len(names), "they have gone")
    scene.end(f"{dict(opened)} connections in {ROUNDS} rounds, of which the broker kept {kept}")
    assert opened.total() == LOITERERS * len(names) * ROUNDS
