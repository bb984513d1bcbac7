"""A starting broker answers no client before it has read the cluster's metadata, because clients trust any answer."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import is_registered
from integration.harness.wait import wait_for
from kafkalite.common.errors import StartupError
from kafkalite.embedded.probe import ClusterView, ask
from kafkalite.network.sockets import OsSockets


def test_a_bound_port_refuses_connections_before_it_listens() -> None:
    """The broker has the port, and no client can connect."""
    sock = OsSockets(None).bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    OsSockets(None).listen(sock, 5)
    with socket.create_connection(("127.0.0.1", port)), pytest.raises(StartupError, match=str(port)):
        OsSockets(None).bind("127.0.0.1", port)
    sock.close()


def test_only_one_of_two_sockets_bound_to_a_port_can_listen() -> None:
    """The other one gets an error."""
    first = OsSockets(None).bind("127.0.0.1", 0)
    port = first.getsockname()[1]
    second = OsSockets(None).bind("127.0.0.1", port)
    OsSockets(None).listen(first, 5)
    with pytest.raises(StartupError, match=f"cannot listen on 127.0.0.1:{port}"):
        OsSockets(None).listen(second, 5)
    first.close()


@pytest.mark.kafkalite_only
def test_the_first_metadata_answer_is_complete(make_cluster: ClusterFactory) -> None:
    """A broker that restarts during its old session refuses connections, and then answers with the whole cluster."""
    cluster = make_cluster(2, {"zookeeper.session.timeout.ms": "6000", "zookeeper.session.guardian.enable": "false"})
    host, _, port = cluster.address(2).rpartition(":")
    for _ in range(2):
        cluster.kill_broker(2)
        assert is_registered(cluster, 2)
        views: list[ClusterView] = []
        done = threading.Event()

        def watch(views: list[ClusterView] = views, done: threading.Event = done) -> None:
            while not done.is_set():
                try:
                    views.append(ask(host, int(port)))
                except OSError:
                    time.sleep(0.002)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        cluster.start_broker(2, wait=False)
        wait_for(lambda views=views: len(views) > 20, "broker 2 answers")  # type: ignore[misc]
        done.set()
        watcher.join()
        assert [view for view in views if set(view.brokers) != {1, 2}] == []
