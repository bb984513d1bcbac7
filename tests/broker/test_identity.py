"""The broker id: configured, remembered, or generated; never guessed where they disagree."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.identity import choose_broker_id
from kafkalite.common.errors import StartupError
from kafkalite.log.file_system import FileSystem
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZooKeeper
from kafkalite.zk.stores.brokers import BrokerStore
from tests.support import run


def choose(dirs: list[Path], broker_id: int | None) -> int:
    texts = {"zookeeper.connect": "localhost:2181", "log.dirs": ",".join(map(str, dirs))}
    if broker_id is not None:
        texts["broker.id"] = str(broker_id)
    store = BrokerStore(MemoryZooKeeper().client(), ManualClock())
    return run(choose_broker_id(BrokerConfig.parse(texts), FileSystem(), store))


def remember(path: Path, broker_id: int) -> Path:
    path.mkdir(exist_ok=True)
    (path / "meta.properties").write_text(f"#\nversion=0\nbroker.id={broker_id}\ncluster.id=x\n")
    return path


def test_the_configured_id(tmp_path: Path) -> None:
    assert choose([tmp_path], 3) == 3


def test_the_remembered_id(tmp_path: Path) -> None:
    assert choose([remember(tmp_path / "a", 1004), tmp_path / "new"], None) == 1004


def test_a_generated_id_lies_past_the_reserved_ones(tmp_path: Path) -> None:
    assert choose([tmp_path], None) == 1001


def test_directories_of_two_brokers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="belong to different brokers"):
        choose([remember(tmp_path / "a", 4), remember(tmp_path / "b", 5)], None)
