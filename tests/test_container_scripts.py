"""The scripts in the image of a broker: ``server.properties`` from the environment, and the health check."""

from __future__ import annotations

import configparser
import contextlib
import importlib.util
import shlex
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from integration.blocks import blocks_of
from kafkalite.broker.properties import parse_properties
from kafkalite.cli.main import build_parser
from kafkalite.embedded.security import ClusterSecurity
from kafkalite.testing.containers import variable

DOCKER = Path(__file__).parents[1] / "docker"


def script(name: str) -> ModuleType:
    """A script of the image as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCKER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


entrypoint, serving = script("entrypoint"), script("serving")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("KAFKALITE_ZOOKEEPER_CONNECT", "zookeeper.connect"),
        ("KAFKALITE_BROKER_ID", "broker.id"),
        ("KAFKALITE_A__DASH_AND___AN_UNDERSCORE", "a-dash.and_an.underscore"),
        ("KAFKALITE_", None),
        ("ZOOKEEPER_CONNECT", None),
        ("KAFKALITE_SERVICE_HOST", None),
        ("KAFKALITE_SERVICE_PORT_CLIENTS", None),
        ("KAFKALITE_PORT", None),
        ("KAFKALITE_PORT_9092_TCP_ADDR", None),
    ],
)
def test_which_property_a_variable_is(name: str, expected: str | None) -> None:
    assert entrypoint.property_name(name) == expected


@pytest.mark.parametrize("name", ["zookeeper.connect", "a-dash", "under_score", "log.retention.ms"])
def test_names_go_to_variables_and_back(name: str) -> None:
    assert entrypoint.property_name(variable(name)) == name


def test_the_environment_wins_over_the_file_and_the_file_over_the_defaults() -> None:
    given = "# mounted\nlog.dirs = /data\nlog.retention.ms=5\nbroker.rack=r1\n"
    text = entrypoint.properties({"KAFKALITE_LOG_RETENTION_MS": "7", "PATH": "/bin"}, given)
    assert parse_properties(text) == {
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/data",
        "log.retention.ms": "7",
        "broker.rack": "r1",
    }


def test_values_stay_what_they_are() -> None:
    values = {"back\\slash": "C:\\new", "lines": "one\ntwo", "equals": "user:pass=word", "last": "ends with \\"}
    environment = {f"KAFKALITE_{number}": value for number, value in enumerate(values.values())}
    parsed = parse_properties(entrypoint.properties(environment))
    assert [parsed[str(number)] for number in range(len(values))] == list(values.values())


@pytest.mark.parametrize(
    ("listeners", "expected"),
    [
        ("PLAINTEXT://:9092", ("127.0.0.1", 9092, "PLAINTEXT")),
        ("INSIDE://0.0.0.0:19092,OUTSIDE://:9092", ("127.0.0.1", 19092, "PLAINTEXT")),
        ("PLAINTEXT://[::]:9092", ("127.0.0.1", 9092, "PLAINTEXT")),
        ("PLAINTEXT://broker-1:9092", ("broker-1", 9092, "PLAINTEXT")),
        ("CLIENTS://:9092,INSIDE://:9094", ("127.0.0.1", 9094, "PLAINTEXT")),
        ("CLIENTS://:9092,BROKERS://:9094", ("127.0.0.1", 9092, "SASL_SSL")),
        ("BROKERS://:9094,CLIENTS://:9092", ("127.0.0.1", 9092, "SASL_SSL")),
        ("SSL://:9092", ("127.0.0.1", 9092, "SSL")),
    ],
)
def test_where_the_health_check_asks(listeners: str, expected: tuple[str, int, str]) -> None:
    names = "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CLIENTS:SASL_SSL,BROKERS:SSL"
    assert serving.address(f"listeners=PLAINTEXT://:1\nbroker.id=1\n{names}\nlisteners={listeners}\n") == expected


def test_a_configuration_without_listeners_is_an_error() -> None:
    with pytest.raises(ValueError, match="no listeners"):
        serving.address("broker.id=1\n")


@contextmanager
def answering(answer: bytes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that gives one client ``answer``, by ``tls``, and hangs up; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            accepted, _ = server.accept()
            with accepted, contextlib.suppress(ssl.SSLError):
                connection = accepted if tls is None else tls.wrap_socket(accepted, server_side=True)
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("asks_for_certificates", [False, True])
def test_the_health_check_asks_a_secured_listener_for_its_versions(
    tmp_path: Path, asks_for_certificates: bool, newest: ssl.TLSVersion
) -> None:
    """Also one that serves only clients with a certificate, which the script does not have."""
    security = ClusterSecurity.create(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    context.load_cert_chain(security.issue("broker-1", "broker"))
    if asks_for_certificates:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(security.ca_file)
    with answering(struct.pack(">iihi", 10, 1, 0, 0), context) as port:
        serving.ask_versions("127.0.0.1", port, "SSL" if asks_for_certificates else "SASL_SSL")


def test_a_listener_that_closes_is_not_healthy() -> None:
    with answering(b"") as port, pytest.raises((OSError, struct.error)):
        serving.ask_versions("127.0.0.1", port, "SASL_PLAINTEXT")


def test_the_health_check_counts_the_brokers_of_the_answer() -> None:
    with answering(struct.pack(">iii", 8, 1, 3)) as port:
        assert serving.ask("127.0.0.1", port) == 3


@pytest.mark.parametrize("answer", [b"", b"\0\0", struct.pack(">iii", 8, 1, 3)[:-2]], ids=["none", "size", "body"])
def test_an_answer_that_is_cut_short_is_none(answer: bytes) -> None:
    with answering(answer) as port, pytest.raises((OSError, struct.error)):
        serving.ask("127.0.0.1", port)


def test_the_unit_in_the_document_starts_a_broker() -> None:
    [unit] = blocks_of("docs/deploy.md", __file__)
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(unit.text)
    program, *arguments = shlex.split(parser["Service"]["ExecStart"])
    assert Path(program).name == "kafkalite"
    assert build_parser("broker").parse_args(arguments).config == Path("/etc/kafkalite/server.properties")
