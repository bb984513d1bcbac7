"""The job *log aggregation*, run by its command over rotating logs and killed, compared with the writers' ledgers.

``KAFKALITE_SEED`` repeats the moments of the kills; ``KAFKALITE_SOAK=1`` (``make soak``) kills the job ten times.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from confluent_kafka import Consumer, KafkaException

from integration.conftest import SOAK
from integration.harness.clients import fresh_topic
from integration.harness.spark import TOO_BUSY
from integration.harness.wait import wait_for
from integration.pipelines.worker import Worker
from kafkalite.embedded.cluster import LocalCluster

SEED = int(os.environ.get("KAFKALITE_SEED", random.randrange(1_000_000)))
TIMEOUT = 300
TOGETHER = 300
"""Number of records in each log of a host between two steps of the test; enough to rotate some logs."""
FIELDS = ("timestamp", "host", "process", "level", "message", "logger")
Fields = dict[str, Any]


class Pipeline:
    """``kafkalite pipeline run`` of a file in ``folder``, in processes that the test kills."""

    def __init__(self, folder: Path, cluster: LocalCluster, topic: str) -> None:
        self.folder = folder
        self.archive = folder / "archive"
        self._output = folder / "run.log"
        self._process: subprocess.Popen[bytes] | None = None
        patterns = [str(folder / "hosts/*/*.log*"), str(cluster.directory / "broker-*/broker.log")]
        (folder / "logs.toml").write_text(f"""
            name = "{topic}"
            job = "log-aggregation"
            kafka."bootstrap.servers" = "{cluster.bootstrap}"
            [spark]
            master = "local[2]"
            "spark.driver.memory" = "512m"
            [options]
            files = {json.dumps(patterns)}
            origin = '/(?P<host>[^/]+)/(?P<process>\\w+)\\.log[^/]*$'
            settle = "1 second"
            topic = "{topic}"
            archive = "{self.archive}"
        """)

    def start(self) -> None:
        """Start the pipeline, also after :meth:`kill`."""
        command = [sys.executable, "-m", "kafkalite.cli.main", "pipeline", "run", str(self.folder / "logs.toml")]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, "--state", str(self.folder / "state")],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def check(self) -> None:
        """Check that the pipeline runs; restart it if Spark failed because the machine was too busy."""
        assert self._process is not None
        if self._process.poll() is not None:
            said = self._output.read_text()[-3000:]
            assert TOO_BUSY in said, said
            self.start()

    def stop(self) -> None:
        """Stop the pipeline by SIGTERM."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(120) == 0, self._output.read_text()[-3000:]

    def kill(self) -> None:
        """Kill all its processes (-9), if they run."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Group:
    """A consumer group of one or several members, and the records that it has read."""

    def __init__(self, bootstrap: str, topic: str, name: str, members: int) -> None:
        self.records: dict[int, list[Fields]] = defaultdict(list)
        settings: dict[str, str | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-{name}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
        self._members = [Consumer(settings) for _ in range(members)]
        for member in self._members:
            member.subscribe([topic])

    def read(self) -> list[Fields]:
        """All records so far, each partition in order."""
        for member in self._members:
            while messages := member.consume(500, timeout=0.3):
                for message in messages:
                    if message.error():
                        raise KafkaException(message.error())
                    self.records[message.partition() or 0].append(json.loads(message.value() or b""))
                member.commit(asynchronous=False)
        return [record for _, records in sorted(self.records.items()) for record in records]

    def close(self) -> None:
        """Close the members."""
        for member in self._members:
            member.close()


@contextmanager
def hosts(folder: Path) -> Iterator[list[Worker]]:
    """Two hosts."""
    folders = [folder / "hosts" / name for name in ("web-1", "web-2")]
    for each in folders:
        each.mkdir(parents=True)
    first, second = (Worker("integration.pipelines.log_writer", str(each)) for each in folders)
    with first, second:
        yield [first, second]


@pytest.fixture
def topic() -> str:
    """A fresh topic name."""
    return fresh_topic("logs")


@pytest.fixture
def pipeline(shared_cluster: LocalCluster, topic: str, tmp_path: Path) -> Iterator[Pipeline]:
    """The job, not yet started."""
    pipeline = Pipeline(tmp_path, shared_cluster, topic)
    yield pipeline
    pipeline.kill()


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(0, marks=pytest.mark.short),
        pytest.param(1, marks=pytest.mark.full),
        pytest.param(
            10, marks=[pytest.mark.soak, pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")]
        ),
    ],
)
def test_every_line_is_in_the_topic_once(
    pipeline: Pipeline, shared_cluster: LocalCluster, topic: str, kills: int
) -> None:
    print(f"\nKAFKALITE_SEED={SEED}: {kills} kills", flush=True)
    rng = random.Random(SEED)
    with hosts(pipeline.folder) as writers:

        def write() -> None:
            for writer in writers:
                writer.do(f"write {TOGETHER}")

        write()
        pipeline.start()
        watching = Group(shared_cluster.bootstrap, topic, "watching", 1)
        wait_until_read(pipeline, watching, ledgers(pipeline.folder)[:1])
        for _ in range(kills):
            write()
            time.sleep(rng.uniform(0, 2))
            pipeline.kill()
            write()
            pipeline.start()
        write()
        brokers = broker_records(shared_cluster)
        wait_until_read(pipeline, watching, [*ledgers(pipeline.folder), *brokers])
        wait_until_archived(pipeline, watching)
        pipeline.stop()
    read = watching.read()
    assert_in_order(read, [*ledgers(pipeline.folder), *brokers])
    assert_positions(read)
    indexing = Group(shared_cluster.bootstrap, topic, "indexing", 2)
    wait_for(lambda: len(indexing.read()) >= len(read), "the other group", TIMEOUT)
    assert indexing.records == watching.records
    rows = archived(pipeline)
    assert_archived_once(rows, read, [*ledgers(pipeline.folder), *brokers])
    assert_archived_by_time(rows)
    for group in (watching, indexing):
        group.close()


def wait_until_read(pipeline: Pipeline, group: Group, expected: Sequence[Fields]) -> None:
    """Wait until ``group`` has read as many records as ``expected``, among them the last one."""

    def all_there() -> bool:
        pipeline.check()
        return {identity(record) for record in expected} <= {identity(record) for record in group.read()}

    wait_for(all_there, f"{len(expected)} records", TIMEOUT, interval=1)


def wait_until_archived(pipeline: Pipeline, group: Group) -> None:
    """Wait until the archive has as many rows as ``group`` has read records."""

    def all_there() -> bool:
        pipeline.check()
        return len(archived(pipeline)) >= len(group.read())

    wait_for(all_there, "the archive", TIMEOUT, interval=1)


def ledgers(folder: Path) -> list[Fields]:
    """The expected records of the hosts' ledgers."""
    files = sorted(folder.glob("hosts/*/ledger.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def broker_records(cluster: LocalCluster) -> list[Fields]:
    """The current records of the brokers' log files, each of which begins with its time in brackets."""
    found: list[Fields] = []
    for broker_id in cluster.broker_ids:
        for line in cluster.log_file(broker_id).read_text().splitlines():
            if not line.startswith("["):
                found[-1]["message"] += f"\n{line}"
                continue
            time, _, rest = line[1:].partition("] ")
            level, _, rest = rest.partition(" ")
            message, _, logger = rest.rpartition(" (")
            found.append(
                {
                    "timestamp": time.replace(" ", "T").replace(",", ".") + "Z",
                    "host": f"broker-{broker_id}",
                    "process": "broker",
                    "level": level.replace("WARNING", "WARN").replace("CRITICAL", "FATAL"),
                    "message": message,
                    "logger": logger.removesuffix(")"),
                }
            )
    return found


def identity(record: Fields) -> str:
    """All fields of a record except its position, as one text."""
    return json.dumps([record[name] for name in FIELDS])


def by_source(records: Iterable[Fields]) -> dict[tuple[str, str], list[str]]:
    """Host and process → its records in their order."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in records:
        found[record["host"], record["process"]].append(identity(record))
    return found


def assert_in_order(read: Sequence[Fields], expected: Sequence[Fields]) -> None:
    """Each record was read once, in the order of the writes; the brokers may have written more meanwhile."""
    found, written = by_source(read), by_source(expected)
    assert found.keys() == written.keys()
    for source, records in written.items():
        seen = found[source][: len(records)] if source[1] == "broker" else found[source]
        assert seen == records, source


def assert_positions(read: Sequence[Fields]) -> None:
    """The file has the record at the position that the record names. (The brokers' files do not rotate.)"""
    for record in read:
        if record["process"] == "broker":
            with open(record["file"], "rb") as file:
                file.seek(record["position"])
                assert record["message"].partition("\n")[0] in file.readline().decode()


def archived(pipeline: Pipeline) -> list[Fields]:
    """The rows of all Parquet files, with times in the topic's format."""
    if not pipeline.archive.exists():
        return []
    partitioning = pyarrow.dataset.partitioning(
        pyarrow.schema([("date", pyarrow.string()), ("hour", pyarrow.string())]), flavor="hive"
    )
    rows: list[Fields] = pyarrow.dataset.dataset(pipeline.archive, partitioning=partitioning).to_table().to_pylist()
    for row in rows:
        time: datetime | None = row["timestamp"]
        row["timestamp"] = time and time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return rows


def assert_archived_once(rows: Sequence[Fields], read: Sequence[Fields], expected: Sequence[Fields]) -> None:
    """The archive has each record of the topic once.

    It may lack what the brokers have written since ``expected``, because the pipeline may end between the topic and the
    archive of a batch, which its next start would complete.
    """
    kept, sent = Counter(map(identity, rows)), Counter(map(identity, read))
    assert not kept - sent
    assert not (sent - kept).keys() & set(map(identity, expected))


def assert_archived_by_time(rows: Sequence[Fields]) -> None:
    """Each row is in the folder of its hour."""
    assert len({(row["date"], row["hour"]) for row in rows}) > 2
    for row in rows:
        if row["timestamp"]:
            assert row["timestamp"].startswith(f"{row['date']}T{row['hour']}:")
