"""Programs with Java's clients (3.9.1) in ``java_src``, compiled once and cached; one of them runs group members."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from integration.harness.java import KAFKA_3_9, TOOL_FLAGS, log4j
from integration.harness.members import MemberHost
from integration.harness.peers import PeerMissingError, cache_dir, classpath, java

SOURCES = Path(__file__).parent / "java_src"
PROGRAM = "GroupMembers"
HEAP = "-Xmx192m"


def javac() -> str:
    """The Java compiler. Raises :class:`PeerMissingError` if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=f"{home}/bin") if home else None
    found = found or shutil.which("javac")
    if found is None:
        raise PeerMissingError(
            "a Java compiler is missing: install a JDK (Debian: apt-get install default-jdk-headless)"
        )
    return found


@cache
def classes() -> Path:
    """The folder with the compiled programs; compiles them if the sources have changed."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    home = cache_dir() / f"{KAFKA_3_9.name}-programs-{digest}"
    if home.is_dir():
        return home
    partial = home.with_name(f"{home.name}.{os.getpid()}")
    command = [javac(), "-encoding", "UTF-8", "-cp", classpath(KAFKA_3_9), "-d", str(partial), *map(str, sources)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    try:
        partial.rename(home)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)  # another process has made the folder
    return home


def java_program(program: str) -> list[str]:
    """The command of one of the programs; its warnings go to standard error."""
    flags = (HEAP, *TOOL_FLAGS[1:], f"-Dlog4j.configuration=file:{log4j('WARN')}")
    return [java(), *flags, "-cp", f"{classes()}{os.pathsep}{classpath(KAFKA_3_9)}", program]


def java_host(log: Path) -> MemberHost:
    """A JVM for members; its warnings go to the file ``log``."""
    return MemberHost(java_program(PROGRAM), log)
