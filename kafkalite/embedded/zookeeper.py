"""A real ZooKeeper as a child process, from installed jars. Blocking; not for a reactor's thread.

Answers to: ``kafka.zk.EmbeddedZookeeper`` and ``bin/zookeeper-server-start.sh``. Reactor shell.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafkalite.common.errors import StartupError
from kafkalite.embedded.processes import free_ports
from kafkalite.embedded.whole_files import write_private

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_SASL_PROVIDER = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
_LOGIN_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
_JVM = ("-Xmx256m", "-Xms32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
_NEEDED = ("zookeeper", "slf4j-api", "netty", "metrics-core", "snappy-java", "commons-", "jline", "logback", "log4j")
_DEBIAN = Path("/usr/share/java")
_HOW = (
    "no ZooKeeper jars found: pip install 'kafkalite[embedded]', or set ZOOKEEPER_HOME to an unpacked Apache "
    "ZooKeeper, or apt-get install zookeeper"
)
_NO_JAVA = "ZooKeeper needs Java 8 or later: install it (apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
_LOGGING = """\
status = OFF
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
"""
# The kernel kills the child when its parent dies; the check is for a parent that died before prctl.
_WRAPPER = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]): os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedZooKeeper:
    """One ZooKeeper server with its data in ``directory``; a later start there continues with the data.

    ``port`` 0 takes a free one, which later starts of the same object keep. ``die_with_parent``: the server ends when
    the thread that started it ends, in any way. ``properties`` are added to ``zoo.cfg``. With ``tls``, the context of a
    client that the server admits, ``port`` serves TLS alone, as ``properties`` say. ``logins``: users, with their
    passwords, who may log in by SASL (DIGEST-MD5).
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        tick_ms: int = 200,
        die_with_parent: bool = True,
        properties: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        logins: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.host = host
        self.port = port
        self._chosen = port == 0
        self._tick_ms = tick_ms
        self._die_with_parent = die_with_parent
        self._properties = dict(properties or {})
        self._tls = tls
        self._logins = dict(logins or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def connect_string(self) -> str:
        """``host:port`` for clients."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self.running and self._process else None

    @property
    def running(self) -> bool:
        """Whether the process exists."""
        return self._process is not None and self._process.poll() is None

    @property
    def log_file(self) -> Path:
        """The file with the server's warnings."""
        return self.directory / "zookeeper.log"

    @property
    def mode(self) -> str:
        """``standalone``, ``leader`` or ``follower``; empty while it does not serve."""
        for line in four_letter_word(self.host, self.port, b"srvr", tls=self._tls).decode().splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""

    def start(self, timeout: float = 30.0, *, wait: bool = True) -> EmbeddedZooKeeper:
        """Start and wait until it serves. Raises :class:`StartupError` with what is missing or went wrong.

        Members of an ensemble are started without ``wait``, because none serves before a majority runs.
        """
        if self.running:
            return self
        java, classpath = find_java(), os.pathsep.join(find_jars())
        for attempt in range(3):
            if self._chosen and (attempt or not self.port):
                [self.port] = free_ports(1, self.host)
            self._launch(java, classpath)
            if not wait:
                return self
            try:
                self.wait_ready(timeout)
                return self
            except StartupError:
                # Try again, because another process may have taken the port that was free a moment ago.
                if not self._chosen or "Address already in use" not in self._log_tail() or attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Wait until it serves, after a :meth:`start` without ``wait``. Raises :class:`StartupError`."""
        assert self._process is not None
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            if self.mode:
                if self._process.poll() is None:
                    return
                break
            time.sleep(0.02)
        ended = self._process.poll()
        what = f"ended with status {ended}" if ended is not None else f"does not serve after {timeout:g} s"
        self.kill()
        tail = self._log_tail()
        if "Address already in use" in tail:
            raise StartupError(f"ZooKeeper cannot listen on {self.connect_string}: Address already in use")
        last = tail.strip().splitlines()[-1:] or ["nothing logged"]
        raise StartupError(f"ZooKeeper {what}; see {self.log_file}: {last[0]}")

    def stop(self, timeout: float = 10.0) -> None:
        """End the server by SIGTERM; its data stay."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """``kill -9``."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop answering without dying (SIGSTOP)."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after :meth:`pause`."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> EmbeddedZooKeeper:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self, java: str, classpath: str) -> None:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = {
            "dataDir": str(data.resolve()),
            **self._address(),
            "tickTime": str(self._tick_ms),
            "minSessionTimeout": "400",
            "maxSessionTimeout": "120000",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr,ruok,mntr,stat,cons,wchs,dump",
            "autopurge.snapRetainCount": "3",
            "autopurge.purgeInterval": "1",
            **({"authProvider.sasl": _SASL_PROVIDER} if self._logins else {}),
            **self._properties,
        }
        config_file = self.directory / "zoo.cfg"
        # Private, because the properties of TLS have the passwords of key stores.
        write_private(config_file, "".join(f"{key}={value}\n" for key, value in config.items()))
        logging_file = self.directory / "log4j2.properties"
        logging_file.write_text(_LOGGING)
        command = [
            java,
            *_JVM,
            f"-Dlog4j2.configurationFile={logging_file.resolve()}",
            "-Dlog4j2.disableJmx=true",
            "-Dzookeeper.jmx.log4j.disable=true",
            "-Dzookeeper.preAllocSize=4096",
            *self._login_options(),
            "-cp",
            classpath,
            _MAIN,
            str(config_file.resolve()),
        ]
        if self._die_with_parent and sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _WRAPPER, str(os.getpid()), *command]
        environment = {key: value for key, value in os.environ.items() if key not in ("CLASSPATH", "JVMFLAGS")}
        environment["JMXDISABLE"] = "true"
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.directory,
                start_new_session=True,
            )

    def _login_options(self) -> list[str]:
        if not self._logins:
            return []
        users = "".join(f'\n    user_{user}="{password}"' for user, password in self._logins.items())
        file = self.directory / "jaas.conf"
        write_private(file, f"Server {{\n    {_LOGIN_MODULE} required{users};\n}};\n")
        return [f"-Djava.security.auth.login.config={file.resolve()}"]

    def _address(self) -> dict[str, str]:
        if self._tls is None:
            return {"clientPort": str(self.port), "clientPortAddress": self.host}
        return {"secureClientPort": str(self.port), "secureClientPortAddress": self.host}

    def _log_tail(self) -> str:
        try:
            return self.log_file.read_bytes()[-4000:].decode("utf-8", "replace")
        except OSError:
            return ""


def four_letter_word(
    host: str, port: int, word: bytes, timeout: float = 2.0, tls: ssl.SSLContext | None = None
) -> bytes:
    """A server's answer to ``srvr``, ``ruok`` and the like; nothing where it does not answer. ``tls``: by TLS."""
    try:
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection((host, port), timeout))
            if tls is not None:
                connection = stack.enter_context(tls.wrap_socket(connection, server_hostname=host))
            connection.sendall(word)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
            return b"".join(parts)
    except OSError:
        return b""


def find_java() -> str:
    """Path of ``java``. Raises :class:`StartupError`."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        return f"{home}/bin/java"
    found = shutil.which("java")
    if found is None:
        raise StartupError(_NO_JAVA)
    return found


def find_jars() -> list[str]:
    """ZooKeeper's jars: from ``ZOOKEEPER_HOME``, from PySpark, or Debian's. Raises :class:`StartupError`."""
    for directory in _candidates():
        jars = sorted(directory.glob("*.jar"))
        if any(jar.name.startswith("zookeeper-") or jar.name == "zookeeper.jar" for jar in jars):
            return [str(jar) for jar in jars if _wanted(jar.name)]
    raise StartupError(_HOW)


def _candidates() -> Iterator[Path]:
    home = os.environ.get("ZOOKEEPER_HOME")
    if home:
        yield from (Path(home) / part for part in ("lib", "libs", "."))
    spec = importlib.util.find_spec("pyspark")
    for place in spec.submodule_search_locations or [] if spec else []:
        yield Path(place) / "jars"
    yield _DEBIAN


def _wanted(name: str) -> bool:
    # Only the needed ones, because PySpark's folder has hundreds of jars, some of them with native libraries.
    return name.startswith(_NEEDED) and "tcnative" not in name and "osx" not in name and "windows" not in name
