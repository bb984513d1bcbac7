"""A real PostgreSQL server as a process: Debian's, or another one on the path."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.harness.wait import wait_for
from kafkalite.embedded.processes import free_ports

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "max_wal_senders": "4",
    "max_replication_slots": "32",
    "fsync": "off",  # safe, because tests kill processes, not the machine
    "shared_buffers": "16MB",
    "autovacuum": "off",
    "jit": "off",
}
USER = "postgres"


class Postgres:
    """A server with its own folder. If root runs the tests, another user owns it, because PostgreSQL refuses root."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._owner: dict[str, Any] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="kafkalite-postgres-"))
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            owner = _other_user()
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
            self._owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}

    def start(self) -> None:
        """Start the server with the existing data, and wait until it answers."""
        data = self._folder / "data"
        if not data.exists():
            self._run("initdb", "-D", str(data), "-U", USER, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
        settings = {**_SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._folder)}
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", str(data), *flags],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._owner,
            )
        wait_for(self._answers, "PostgreSQL answers", timeout=120)

    def stop(self) -> None:
        """Stop the server at once, as after a crash; the next start recovers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        """Stop the server, and delete its folder."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def create(self, database: str) -> str:
        """Create a database; returns its address."""
        self.sql(f"CREATE DATABASE {database}")
        return self.url(database)

    def url(self, database: str) -> str:
        """The address of a database for libpq and psycopg."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def jdbc_url(self, database: str) -> str:
        """The address of a database for JDBC."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{database}?user={USER}"

    def sql(self, statements: str, database: str = USER) -> str:
        """The unaligned output of ``psql`` for ``statements``. Raises ``AssertionError`` with its errors."""
        command = [str(self._binaries / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.url(database), "-f", "-"]
        done = subprocess.run(command, input=statements, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{statements}: {done.stderr}"
        return done.stdout

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "server.log").read_text(errors="replace")
        ready = [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self._folder, check=False, **self._owner)
        assert done.returncode == 0, done.stderr


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A running server; the test is skipped if PostgreSQL is not installed."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL here (Debian: apt-get install postgresql)")
    server = Postgres(binaries)
    try:
        server.start()
        yield server
    finally:
        server.close()


def _binaries() -> Path | None:
    """The folder with the newest server's programs."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    newest = max(folders, key=lambda folder: float(folder.parent.name), default=None)
    found = shutil.which("initdb")
    return newest or (Path(found).resolve().parent if found else None)


def _other_user() -> pwd.struct_passwd:
    """A user other than root."""
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        return pwd.getpwnam("nobody")
