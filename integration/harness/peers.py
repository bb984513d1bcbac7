"""Kafka's own programs in several releases, fetched from Maven Central once and kept in a cache.

``KAFKALITE_PEERS`` names the cache directory; otherwise it is ``~/.cache/kafkalite/peers``. ``python -m
integration.harness.peers`` fetches all of them, so that no test has to wait for Maven Central.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ATTEMPTS = 5
ATTEMPT_TIMEOUT = 150.0
"""Seconds of one attempt. Maven keeps the fetched files between attempts; all attempts fit into a test's time limit."""


@dataclass(frozen=True)
class Peer:
    """One release: ``coordinates`` are ``group:artifact:version``, with their dependencies unless ``alone``."""

    name: str
    coordinates: tuple[str, ...]
    alone: bool = False


KAFKA_3_9 = Peer(
    "kafka-3.9.1",
    ("org.apache.kafka:kafka_2.13:3.9.1", "org.apache.kafka:kafka-tools:3.9.1", "org.slf4j:slf4j-reload4j:1.7.36"),
)
# Alone, because the tools bring Connect's own jars along.
MIRROR_MAKER_3_9 = Peer(
    "kafka-mirror-3.9.1",
    ("org.apache.kafka:connect-mirror:3.9.1", "org.apache.kafka:connect-mirror-client:3.9.1"),
    alone=True,
)
"""MirrorMaker 2, which needs the jars of :data:`KAFKA_3_9` beside its own."""
KAFKA_2_8 = Peer("kafka-2.8.2", ("org.apache.kafka:kafka_2.13:2.8.2", "org.slf4j:slf4j-reload4j:1.7.36"))
KAFKA_0_10 = Peer("kafka-0.10.2.2", ("org.apache.kafka:kafka_2.12:0.10.2.2",))
_SPARK_KAFKA = (
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
# Without dependencies, because the registry lacks some of their versions and Spark brings them along.
SPARK_KAFKA = Peer("spark-kafka-4.2.0", ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", *_SPARK_KAFKA), alone=True)
"""Spark's own Kafka source in its newest release; newer versions of Spark accept it."""
SPARK_KAFKA_4_1 = Peer(
    "spark-kafka-4.1.1", ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1", *_SPARK_KAFKA), alone=True
)
POSTGRES_JDBC = Peer("postgresql-jdbc-42.7.7", ("org.postgresql:postgresql:42.7.7",), alone=True)
KAFKA_0_8 = Peer("kafka-0.8.2.2", ("org.apache.kafka:kafka_2.11:0.8.2.2",))
ALL = (KAFKA_3_9, MIRROR_MAKER_3_9, KAFKA_2_8, KAFKA_0_10, KAFKA_0_8, SPARK_KAFKA, POSTGRES_JDBC)
"""All releases that the tests need."""


class PeerMissingError(Exception):
    """A release or program is missing; the text says what to install."""


def cache_dir() -> Path:
    """The folder with the fetched releases."""
    return Path(os.environ.get("KAFKALITE_PEERS") or Path.home() / ".cache" / "kafkalite" / "peers")


def java() -> str:
    """The Java runtime. Raises :class:`PeerMissingError` if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    if found is None:
        raise PeerMissingError(
            "Java is missing: install a Java runtime, 17 or newer (Debian: apt-get install default-jre-headless)"
        )
    return found


def classpath(peer: Peer) -> str:
    """The Java class path of ``peer``; fetches the release if it is not in the cache."""
    return f"{libs(peer)}/*"


def libs(peer: Peer) -> Path:
    """The folder with the jars of ``peer``. Raises :class:`PeerMissingError` if they cannot be fetched."""
    home = cache_dir() / peer.name
    if (home / "libs").is_dir():
        return home / "libs"
    home.mkdir(parents=True, exist_ok=True)
    # One Maven at a time, because Maven's local repository does not support two processes.
    with (cache_dir() / "maven.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return home / "libs" if (home / "libs").is_dir() else _fetch(peer, home)


def _fetch(peer: Peer, home: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissingError(f"Maven is missing, which fetches {peer.name} (Debian: apt-get install maven)")
    (home / "pom.xml").write_text(_pom(peer))
    partial = home / f"libs.{os.getpid()}"
    output = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(2.0 * attempt)  # "could not transfer" is mostly a passing error of the registry
        command = [maven, "-q", "-B", "-f", str(home / "pom.xml"), "dependency:copy-dependencies"]
        try:
            done = subprocess.run(
                [*command, f"-DoutputDirectory={partial}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=ATTEMPT_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            output = f"Maven did not end within {ATTEMPT_TIMEOUT:.0f} s"
            continue
        if done.returncode == 0:
            return partial.rename(home / "libs")
        output = done.stdout + done.stderr
    shutil.rmtree(partial, ignore_errors=True)
    raise PeerMissingError(f"{peer.name} could not be fetched from Maven Central: {' '.join(output.split())[:500]}")


def _pom(peer: Peer) -> str:
    nothing = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    exclusions = f"<exclusions>{nothing}</exclusions>" if peer.alone else ""
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>".format(
            *text.split(":"), exclusions
        )
        for text in peer.coordinates
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kafkalite</groupId>"
        f"<artifactId>{peer.name}</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>\n"
    )


if __name__ == "__main__":
    try:
        for each in ALL:
            libs(each)
    except PeerMissingError as error:
        sys.exit(str(error))
