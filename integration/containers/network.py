"""Network faults in a container's network namespace: packets dropped, lost at random, or delayed.

``nsenter`` runs the host's ``iptables`` and ``tc`` there, so that an image needs neither. The kernel's counters of
dropped packets prove that a partition took effect.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from integration.containers import delayer

INPUT, OUTPUT = "INPUT", "OUTPUT"
QUEUE = "1"


class Namespace:
    """The network of the container whose first process is ``pid``."""

    def __init__(self, pid: int) -> None:
        self._enter = ["nsenter", "--target", str(pid), "--net"]

    def drop(self, peers: Iterable[str]) -> None:
        """Drop all packets from and to ``peers`` (addresses)."""
        for peer in peers:
            self._iptables("--append", INPUT, "--source", peer, "--jump", "DROP")
            self._iptables("--append", OUTPUT, "--destination", peer, "--jump", "DROP")

    def dropped(self) -> int:
        """Number of packets that :meth:`drop` has dropped since :meth:`heal`."""
        return self._counted("DROP")

    def delayed(self) -> int:
        """Number of packets that :meth:`slow_down` has delayed so far."""
        if has_netem():
            sent = re.search(r"qdisc netem.*\n Sent \d+ bytes (\d+) pkt", self._run("tc", "-s", "qdisc", "show"))
            return int(sent[1]) if sent else 0
        return self._counted("NFQUEUE")

    def heal(self) -> None:
        """Let all packets pass again."""
        for chain in (INPUT, OUTPUT):
            self._iptables("--flush", chain)

    @contextmanager
    def slow_down(self, delay_ms: int, jitter_ms: int, loss_percent: float) -> Iterator[None]:
        """Delay outgoing packets and drop some of them, by ``tc netem`` or its replacement.

        In a kernel without netem, a queue to user space (``delayer.py``) and a random iptables rule have the same
        effect.
        """
        if has_netem():
            rule = f"netem delay {delay_ms}ms {jitter_ms}ms loss {loss_percent}%"
            device = self._device()
            self._run("tc", "qdisc", "add", "dev", device, "root", *rule.split())
            try:
                yield
            finally:
                self._run("tc", "qdisc", "del", "dev", device, "root")
            return
        process = subprocess.Popen(
            [*self._enter, sys.executable, delayer.__file__, QUEUE, str(delay_ms), str(jitter_ms)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == delayer.READY, "packets can be queued"
            matching = f"--match statistic --mode random --probability {loss_percent / 100}"
            self._iptables("--append", OUTPUT, *matching.split(), "--jump", "DROP")
            self._iptables("--append", OUTPUT, "--jump", "NFQUEUE", "--queue-num", QUEUE, "--queue-bypass")
            yield
        finally:
            self.heal()
            process.terminate()
            process.communicate()

    def _device(self) -> str:
        """Name of the default network device, which changes after a disconnect and a connect."""
        return self._run("ip", "-oneline", "-4", "route", "show", "default").split(" dev ")[1].split()[0]

    def _counted(self, target: str) -> int:
        rows = [line.split() for line in self._iptables("--list", "--numeric", "--verbose", "--exact").splitlines()]
        return sum(int(row[0]) for row in rows if len(row) > 2 and row[2] == target)

    def _iptables(self, *arguments: str) -> str:
        return self._run("iptables", "--wait", *arguments)

    def _run(self, *command: str) -> str:
        return run(*self._enter, *command)


def run(*command: str) -> str:
    """The output of a command. Raises ``RuntimeError`` with its error output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@cache
def has_netem() -> bool:
    """Whether the kernel has netem, tried in a temporary network namespace."""
    trial = "tc qdisc add dev lo root netem delay 1ms"
    return subprocess.run(["unshare", "--net", *trial.split()], capture_output=True, check=False).returncode == 0
