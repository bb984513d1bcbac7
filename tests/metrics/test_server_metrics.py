"""The broker as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kafkalite.metrics.server_metrics import BrokerState, ServerMetricsCollector
from tests.metrics.test_collectors import values


@dataclass
class Session:
    """A guardian and a watchdog."""

    is_running: bool = True
    hangs: int = 2


@pytest.mark.parametrize(("guardian", "guarded"), [(Session(), 1), (Session(is_running=False), 0), (None, 0)])
def test_state_disks_guardian_and_watchdog(tmp_path: Path, guardian: Session | None, guarded: int) -> None:
    io = tmp_path / "io"
    io.write_text("rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n")
    collector = ServerMetricsCollector("abc", lambda: BrokerState.RUNNING, guardian, Session(), io)
    assert values(collector) == {
        ("kafka_server_kafkaserver_brokerstate",): 3,
        ("kafka_server_kafkaserver_clusterid", "abc"): 1,
        ("kafka_server_kafkaserver_linux_disk_read_bytes",): 4096,
        ("kafka_server_kafkaserver_linux_disk_write_bytes",): 8192,
        ("kafkalite_session_guardian_running",): guarded,
        ("kafkalite_watchdog_hangs",): 2,
    }


def test_counts_of_disks_are_left_out_where_the_system_has_none(tmp_path: Path) -> None:
    collector = ServerMetricsCollector("abc", lambda: BrokerState.STARTING, None, Session(), tmp_path / "none")
    assert not [key for key in values(collector) if "disk" in key[0]]
