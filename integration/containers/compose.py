"""``docker compose``, as a plugin of Docker or as the older separate program."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from integration.containers.daemon import DockerError, docker

DOCKER = Path(__file__).resolve().parents[2] / "docker"
LABEL = "com.docker.compose"
HOW = "docker compose is missing: install it (Debian: apt-get install docker-compose)"


def program() -> list[str]:
    """The command line of compose. Raises :class:`DockerError` if it is missing."""
    for words in (["docker", "compose"], ["docker-compose"]):
        try:
            if subprocess.run([*words, "version"], capture_output=True, check=False).returncode == 0:
                return words
        except FileNotFoundError:
            continue
    raise DockerError(HOW)


class Compose:
    """The services of the compose file ``name`` of ``docker/`` as a separate project, removed after ``with``."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self._project = f"kafkalite-{secrets.token_hex(4)}"
        self._command = [*program(), "--project-name", self._project, "--file", str(DOCKER / name)]
        self._environment = {**os.environ, **environment}

    def __call__(self, *words: object) -> str:
        """Run a command of compose. Raises :class:`DockerError`."""
        command = [*self._command, *map(str, words)]
        return _output(command, " ".join(command), timeout=600, environment=self._environment)

    def shell(self, script: str, directory: Path) -> str:
        """Run the unchanged lines of a document in ``directory``. Raises :class:`DockerError`."""
        shown = directory / DOCKER.name
        if not shown.exists():
            shown.symlink_to(DOCKER)
        environment = {**self._environment, "COMPOSE_PROJECT_NAME": self._project}
        script = script.replace("docker compose", " ".join(program()))
        return _output(["sh", "-euc", script], script, timeout=800, environment=environment, folder=directory)

    def run(self, service: str, *words: object) -> str:
        """Run a program in the container of ``service``; returns its output."""
        return docker("exec", self.container(service), *words).strip()

    def container(self, service: str) -> str:
        """Id of a service's container; by its labels, because a start of compose takes a second."""
        labels = {"project": self._project, "service": service}
        filters = [word for name, value in labels.items() for word in ("--filter", f"label={LABEL}.{name}={value}")]
        return docker("ps", "--all", "--quiet", *filters)

    def healthy(self, service: str) -> bool:
        """Whether Docker reports the service as healthy. Raises :class:`DockerError` if it has no container."""
        return docker("inspect", "--format", "{{.State.Health.Status}}", self.container(service)) == "healthy"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self("down", "--volumes", "--timeout", "5")


def _output(
    command: Sequence[str], shown: str, *, timeout: float, environment: Mapping[str, str], folder: Path | None = None
) -> str:
    """The output of ``command``. Raises :class:`DockerError`, whose text begins with ``shown``."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    if done.returncode:
        raise DockerError(f"{shown}: {done.stderr[-2000:]}")
    return done.stdout
