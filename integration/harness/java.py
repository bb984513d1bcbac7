"""Kafka's Java programs as functions that return their output, and real Kafka as a broker."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from integration.harness.class_archive import ClassArchive
from integration.harness.peers import KAFKA_0_8, KAFKA_0_10, KAFKA_2_8, KAFKA_3_9, Peer, classpath, java, libs
from integration.harness.wait import FailedError

__all__ = ["KAFKA_0_8", "KAFKA_0_10", "KAFKA_2_8", "KAFKA_3_9", "Result", "kafka_launcher", "run_tool"]

TOOL_HEAP = "-Xmx256m"
# The simple compiler and collector, because a tool runs for a second or two and these start it fastest.
TOOL_FLAGS = (TOOL_HEAP, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
ADMINISTRATION = "Command"
"""The end of the names of the tools that load most of what other tools load."""
LOG4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.Target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


class Result:
    """Output and exit code of a tool."""

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
    """A configuration of log4j that writes messages of ``level`` and above to standard error."""
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
    flags: Sequence[str] = (),
) -> Result:
    """Run ``main`` of ``peer`` with ``arguments``; ``flags`` are those of the JVM.

    Raises :class:`FailedError` with its output if it fails and ``check`` is set.
    """
    data = stdin.encode() if isinstance(stdin, str) else stdin
    shared = [*flags, f"-Dlog4j.configuration=file:{log4j('WARN')}", "-cp", classpath(peer), main, *arguments]
    archive = ClassArchive(libs(peer).parent, java(), "tools")
    try:
        with archive.flags(may_write=main.endswith(ADMINISTRATION)) as archived:
            command = [java(), heap, *TOOL_FLAGS[1:], *archived, *shared]
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
