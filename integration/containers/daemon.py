"""The Docker daemon of these tests: a running one, or one that is started here if the user is root.

``KAFKALITE_DOCKER=required`` makes a missing daemon a failure; otherwise the tests that need it are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from integration.harness.wait import FailedError

REQUIRED = os.environ.get("KAFKALITE_DOCKER") == "required"
HOW = "install Docker (Debian: apt-get install docker.io) and start it, or run the tests as root: they start it then"
START_TIMEOUT = 60.0
ATTEMPTS: tuple[tuple[str, ...], ...] = ((), ("--storage-driver=vfs",))
"""Options of the daemon to try: in a container the file system may not support the usual storage driver."""


class DockerError(FailedError):
    """A ``docker`` command failed; the text is its command line and its output."""


class NoDaemonError(Exception):
    """No Docker daemon answers and none can be started; the text says why and what to do."""


def docker(
    *arguments: object, timeout: float = 600.0, check: bool = True, stdin: str | None = None, both: bool = False
) -> str:
    """The output of ``docker ARGUMENTS`` without the last newline; ``both``: standard error, too.

    Raises :class:`DockerError` if the command fails and ``check`` is set.
    """
    command = ["docker", *map(str, arguments)]
    # The old builder, because every daemon has it, and BuildKit is a separate package.
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    done = subprocess.run(
        command, input=stdin or "", capture_output=True, text=True, check=False, timeout=timeout, env=environment
    )
    if check and done.returncode:
        raise DockerError(f"{' '.join(command)}: {done.stderr.strip()[-2000:] or done.stdout.strip()[-2000:]}")
    return (done.stdout + done.stderr if both else done.stdout).rstrip("\n")


def answers() -> bool:
    """Whether a daemon answers."""
    if shutil.which("docker") is None:
        return False
    try:
        docker("version", "--format", "{{.Server.Version}}", timeout=10)
    except (DockerError, subprocess.TimeoutExpired):
        return False
    return True


class Daemon:
    """A daemon to use. :meth:`close` ends it if it was started here."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if not answers():
            self._start()

    def close(self) -> None:
        """End the daemon and its containers."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def _start(self) -> None:
        if os.environ.get("DOCKER_HOST"):
            raise NoDaemonError(f"no Docker daemon answers at DOCKER_HOST={os.environ['DOCKER_HOST']}")
        if shutil.which("docker") is None or shutil.which("dockerd") is None:
            raise NoDaemonError(f"there is no Docker here: {HOW}")
        if os.getuid() != 0:
            raise NoDaemonError(f"no Docker daemon answers: {HOW}")
        folder = Path(tempfile.mkdtemp(prefix="kafkalite-dockerd-"))
        log = folder / "dockerd.log"
        # Separate files, because a killed daemon leaves its pid in /run, and another process may have that pid now.
        files = (f"--pidfile={folder}/docker.pid", f"--exec-root={folder}/run")
        for options in ATTEMPTS:
            if self._launch(log, (*files, *options)):
                return
        last = " / ".join(log.read_text(errors="replace").splitlines()[-3:])
        raise NoDaemonError(f"dockerd does not start here ({log}): {last}")

    def _launch(self, log: Path, options: tuple[str, ...]) -> bool:
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["dockerd", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and process.poll() is None:
            if answers():
                self._process = process
                return True
            time.sleep(0.1)
        process.terminate()
        process.wait(30)
        return False
