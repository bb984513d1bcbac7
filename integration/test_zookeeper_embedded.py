"""The embedded ZooKeeper: its errors, its data, its end."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from integration.harness.wait import has_ended, wait_for
from kafkalite.common.errors import StartupError
from kafkalite.embedded import zookeeper as module
from kafkalite.embedded.security import ClusterSecurity
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper, four_letter_word


def test_missing_java_and_jars_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(module, "_DEBIAN", tmp_path)
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    with pytest.raises(StartupError, match=r"kafkalite\[embedded\].*ZOOKEEPER_HOME.*apt-get"):
        module.find_jars()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "zookeeper-3.9.5.jar").touch()
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    assert module.find_jars() == [str(tmp_path / "lib" / "zookeeper-3.9.5.jar")]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(StartupError, match="needs Java"):
        module.find_java()


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, pytest.raises(StartupError, match="Address already in use"):
        EmbeddedZooKeeper(tmp_path, taken.getsockname()[1]).start()


def test_a_secured_server_admits_only_certificates_of_its_authority(tmp_path: Path) -> None:
    """Also for the four-letter words, and without TLS it answers nothing."""
    security = ClusterSecurity.create(tmp_path)
    stranger = ssl.create_default_context(cafile=security.ca_file)
    tls = security.zookeeper_client()
    with EmbeddedZooKeeper(tmp_path / "zookeeper", properties=security.zookeeper_properties(), tls=tls) as server:
        assert server.mode == "standalone"
        for context in (None, stranger):
            assert four_letter_word(server.host, server.port, b"srvr", tls=context) == b""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            other = EmbeddedZooKeeper(tmp_path / "b", port, properties=security.zookeeper_properties(), tls=tls)
            with pytest.raises(StartupError, match="Address already in use"):
                other.start()


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from kafkalite.embedded.zookeeper import EmbeddedZooKeeper\n"
        "print(EmbeddedZooKeeper(sys.argv[1]).start().pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    wait_for(lambda: has_ended(pid), "its end")


def test_the_command_serves_until_a_signal_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafkalite.cli.main", "zookeeper", "start", "--port", "0", "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    port = int(line.split("127.0.0.1:")[1].split()[0])
    assert b"Mode: standalone" in four_letter_word("127.0.0.1", port, b"srvr")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stdout.close()
    assert four_letter_word("127.0.0.1", port, b"srvr") == b""
