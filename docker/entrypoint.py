"""What a container runs: ``server.properties`` from the environment, then the broker in this very process.

Answers to: ``/etc/confluent/docker/run`` of cp-kafka and ``kafka.docker.KafkaDockerWrapper``. A script, not a module.

``KAFKALITE_ZOOKEEPER_CONNECT`` is ``zookeeper.connect``: behind the prefix, in small letters, one underscore is a dot,
two are a dash, three are an underscore, as in cp-kafka. The environment wins over a file that is mounted at
``/etc/kafkalite/server.properties``, this over the image's own defaults; what came of it is at
``/run/kafkalite/server.properties``. With arguments it is the command ``kafkalite`` instead.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

PREFIX = "KAFKALITE_"
GIVEN = Path("/etc/kafkalite/server.properties")
RESULT = Path("/run/kafkalite/server.properties")
DEFAULTS = {"listeners": "PLAINTEXT://:9092", "log.dirs": "/var/lib/kafkalite"}
# Kubernetes tells each container of each service; a service named "kafkalite" looks like settings of ours.
NOT_OURS = re.compile(r"SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_.*)?")
SEPARATORS = {"_": ".", "__": "-", "___": "_"}


def property_name(variable: str) -> str | None:
    """The property that an environment ``variable`` sets; None for one that is not meant for the broker."""
    name = variable.removeprefix(PREFIX)
    if not variable.startswith(PREFIX) or not name or NOT_OURS.fullmatch(name):
        return None
    return re.sub(r"_{1,3}", lambda run: SEPARATORS[run[0]], name.lower())


def properties(environment: Mapping[str, str], given: str = "") -> str:
    """The text of ``server.properties``: the defaults, what was ``given``, the environment; later lines win."""
    chosen = {name: value for variable, value in environment.items() if (name := property_name(variable))}
    lines = [f"{name}={escaped(value)}" for name, value in DEFAULTS.items()]
    lines.extend(given.splitlines())
    lines.extend(f"{name}={escaped(value)}" for name, value in sorted(chosen.items()))
    return "\n".join(lines) + "\n"


def escaped(value: str) -> str:
    """``value`` as a properties file writes it, on one line."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM, or run a command; the exit code."""
    if arguments:
        from kafkalite.cli.main import main as command

        return command(arguments)
    # Process 1 is deaf to signals that it has no handler for, and the reactor's come only when it runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    given = GIVEN.read_text() if GIVEN.exists() else ""
    RESULT.touch(mode=0o600)
    RESULT.write_text(properties(os.environ, given))
    from kafkalite.broker.process import run

    return run(RESULT, {})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
