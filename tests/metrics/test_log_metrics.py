"""Flushes and log directories of a log manager, against what the test did to it."""

from __future__ import annotations

from pathlib import Path

from kafkalite.metrics.log_metrics import LogMetricsCollector
from tests.log.fixtures import NOW, batch
from tests.log.test_log_manager import LogManagerFixture, tp
from tests.metrics.test_collectors import values


def test_flushes_are_counted_and_a_failed_directory_is_named(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, dirs=2)
    manager = fixture.started()
    collector = LogMetricsCollector(manager, fixture.clock)
    flushes = ("kafka_log_logflushstats_logflushrateandtimems",)
    offline = ("kafka_log_logmanager_offlinelogdirectorycount",)
    before = values(collector)
    assert before[offline] == 0
    log = manager.get_or_create(tp(0), None)
    log.append_as_leader(batch(1), 0, NOW)
    log.flush()
    after = values(collector)
    assert after[flushes] > before[flushes]
    manager.handle_failure(fixture.dirs[0])
    failed = values(collector)
    assert failed[offline] == 1
    directories = {
        key[1]: value for key, value in failed.items() if key[0] == "kafka_log_logmanager_logdirectoryoffline"
    }
    assert directories == {path: path == fixture.dirs[0] for path in fixture.dirs}
