"""Kafka's Java programs as functions: run one to its end and have its output; or launch real Kafka as a broker."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from integration.harness.peers import KAFKA_0_8, KAFKA_0_10, KAFKA_2_8, KAFKA_3_9, Peer, classpath, java
from integration.harness.wait import FailedError

__all__ = ["KAFKA_0_8", "KAFKA_0_10", "KAFKA_2_8", "KAFKA_3_9", "Result", "kafka_launcher", "run_tool"]

TOOL_HEAP = "-Xmx256m"
# A tool lives for a second or two on a busy machine: the cheap compiler and the cheap collector start it fastest.
TOOL_FLAGS = (TOOL_HEAP, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
LOG4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.Target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


class Result:
    """What a tool said and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def lines(self) -> list[str]:
        """Its standard output without empty lines."""
        return [line for line in self.out.splitlines() if line.strip()]

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out[-4000:]}\n{self.err[-4000:]}"


@cache
def log4j(level: str) -> Path:
    """A configuration of log4j that writes ``level`` and worse to standard error."""
    path = Path(tempfile.mkdtemp(prefix="kafkalite-log4j-")) / "log4j.properties"
    path.write_text(LOG4J.replace("WARN", level))
    return path


def run_tool(
    peer: Peer,
    main: str,
    *arguments: str,
    stdin: str | bytes | None = None,
    timeout: float = 120.0,
    check: bool = True,
    heap: str = TOOL_HEAP,
) -> Result:
    """Run ``main`` of ``peer`` with ``arguments``.

    Raises :class:`FailedError` with its output where it fails and ``check`` is set.
    """
    data = stdin.encode() if isinstance(stdin, str) else stdin
    flags = (heap, *TOOL_FLAGS[1:])
    command = [java(), *flags, f"-Dlog4j.configuration=file:{log4j('WARN')}", "-cp", classpath(peer), main, *arguments]
    try:
        done = subprocess.run(command, input=data or b"", capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace") + (error.stderr or b"").decode(errors="replace")
        raise AssertionError(f"{main} did not end within {timeout:.0f} s: {said[-4000:]}") from None
    result = Result(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="replace"))
    if check and result.code != 0:
        raise FailedError(f"{main} {' '.join(arguments)}: {result!r}")
    return result


def kafka_launcher(heap: str = "512m", peer: Peer = KAFKA_3_9) -> Callable[[Path], list[str]]:
    """A launcher for :class:`kafkalite.embedded.cluster.LocalCluster` that starts real Kafka in ZooKeeper mode."""

    def launch(config: Path) -> list[str]:
        flags = [f"-Xmx{heap}", f"-Xms{heap}", "-XX:+UseG1GC", f"-Dlog4j.configuration=file:{log4j('INFO')}"]
        return [java(), *flags, "-cp", classpath(peer), "kafka.Kafka", str(config)]

    return launch
