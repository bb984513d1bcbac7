"""``kafkalite reassign``: proposals, and how moves are shown."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.cli import reassign_throttles
from kafkalite.cli.main import UsageError
from kafkalite.cli.reassign import (
    by_rack,
    cancel,
    execute,
    list_moves,
    propose,
    read_assignment,
    read_log_dirs,
    read_topics,
    verify,
)
from kafkalite.cli.reassign_log_dirs import ReplicaPlace
from kafkalite.cli.reassign_throttles import Throttles, throttles_of
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition

from .helpers import Admin, parse, topic

MOVE = {"replicas": [1, 2, 3], "adding_replicas": [3], "removing_replicas": [1]}
Change = tuple[str, str, list[tuple[str, int, str | None]]]
BROKERS = {"brokers": [{"broker_id": 1}, {"broker_id": 2}, {"broker_id": 3}]}
TOPICS = [topic("t", (1, [1, 2], [1, 2]), (2, [2, 1], [2, 1]))]


def write(path: Path, *partitions: tuple[int, list[int]]) -> Path:
    entries = [{"topic": "t", "partition": index, "replicas": replicas} for index, replicas in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


@pytest.fixture(autouse=True)
def changes(monkeypatch: pytest.MonkeyPatch) -> list[Change]:
    """The configurations that were changed: (kind, name, changes)."""
    made: list[Change] = []
    monkeypatch.setattr(reassign_throttles, "change_configs", lambda _admin, *change: made.append(change))
    return made


def arguments(action: str, file: Path, *more: str) -> Any:
    return parse("reassign", f"--{action}", "--reassignment-json-file", str(file), *more)


@pytest.mark.parametrize("seed", range(5))
def test_a_proposal_spreads_evenly(seed: int) -> None:
    current = {TopicPartition("t", index): [1, 2] for index in range(12)}
    proposed = propose(current, [1, 2, 3, 4], {}, random.Random(seed))
    assert proposed.keys() == current.keys()
    assert all(len(set(replicas)) == 2 for replicas in proposed.values())
    for position in (0, 1):
        leaders = [replicas[position] for replicas in proposed.values()]
        assert {leaders.count(broker) for broker in (1, 2, 3, 4)} == {3}


@pytest.mark.parametrize("seed", range(5))
def test_a_proposal_minds_the_racks(seed: int) -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    current = {TopicPartition("t", index): [1, 2] for index in range(4)}
    firsts = [replicas[0] for replicas in propose(current, [1, 2, 3, 4], racks, random.Random(seed)).values()]
    assert sorted(firsts) == [1, 2, 3, 4]
    assert by_rack([1, 2, 3, 4], racks) == [1, 3, 2, 4]


def test_too_few_brokers_to_propose() -> None:
    with pytest.raises(UsageError, match="topic t has 2 replicas, --broker-list only 1"):
        propose({TopicPartition("t", 0): [1, 2]}, [3], {}, random.Random(1))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((read, text) for read in (read_assignment, read_topics) for text in ("", "[]", "{}")),
        (read_assignment, '{"partitions": [{"topic": "t"}]}'),
        (read_assignment, '{"partitions": []}'),
        (read_topics, '{"topics": ["t"]}'),
        (read_topics, '{"topics": 1}'),
    ],
)
def test_files_that_are_something_else(read: Callable[[Path], object], text: str, tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"moves\.json: "):
        read(file)


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    moves = Admin(list_partition_reassignments={TopicPartition("t", 0): MOVE})
    list_moves(moves, parse("reassign", "--list"))
    assert capsys.readouterr().out.splitlines() == [
        "Current partition reassignments:",
        "t-0: replicas: 1,2,3. adding replicas: 3. removing replicas: 1.",
    ]
    list_moves(moves, parse("reassign", "--list", "--json"))
    assert json.loads(capsys.readouterr().out) == [{"topic": "t", "partition": 0, **MOVE}]
    list_moves(Admin(list_partition_reassignments={}), parse("reassign", "--list"))
    assert capsys.readouterr().out == "No partition reassignments found.\n"


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "moves.json", (0, [2, 3]), (1, [2, 1]), (2, [1]))
    cluster = Admin(describe_topics=TOPICS, list_partition_reassignments={TopicPartition("t", 0): MOVE})
    assert verify(cluster, arguments("verify", file)) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "Reassignment of partition t-0 is still in progress.",
        "Reassignment of partition t-1 is completed.",
        "Reassignment of partition t-2 failed: no such partition.",
    ]
    idle = Admin(describe_topics=TOPICS, list_partition_reassignments={}, describe_cluster=BROKERS)
    assert verify(idle, arguments("verify", write(file, (0, [2, 3])))) == 1
    assert "failed: replicas are 1,2 instead of 2,3." in capsys.readouterr().out
    assert verify(idle, arguments("verify", write(file, (0, [1, 2])))) == 0


def test_execute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "moves.json", (0, [2, 3]), (1, [3, 1]))
    cluster = Admin(
        describe_topics=TOPICS,
        list_partition_reassignments={},
        alter_partition_reassignments={TopicPartition("t", 0): None},
    )
    assert execute(cluster, arguments("execute", file)) == 0
    asked = cluster.calls[-1][1]
    assert {(tp.topic, tp.partition): replicas for tp, replicas in asked.items()} == {
        ("t", 0): [2, 3],
        ("t", 1): [3, 1],
    }
    lines = capsys.readouterr().out.splitlines()
    assert [part["replicas"] for part in json.loads(lines[2])["partitions"]] == [[1, 2], [2, 1]]
    assert lines[-1] == "Successfully started partition reassignments for t-0,t-1"

    busy = Admin(describe_topics=TOPICS, list_partition_reassignments={TopicPartition("t", 0): MOVE})
    with pytest.raises(ApiError, match="another reassignment is running"):
        execute(busy, arguments("execute", file))
    with pytest.raises(ApiError, match="t-7"):
        execute(cluster, arguments("execute", write(file, (7, [1]))))


def test_cancel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "moves.json", (0, [2, 3]), (1, [3, 1]))
    cluster = Admin(list_partition_reassignments={TopicPartition("t", 0): MOVE}, alter_partition_reassignments={})
    cluster.answers["describe_cluster"] = BROKERS
    assert cancel(cluster, arguments("cancel", file)) == 0
    (asked,) = [asked for name, asked in cluster.calls if name == "alter_partition_reassignments"]
    assert [(tp.partition, replicas) for tp, replicas in asked.items()] == [(0, None)]
    assert capsys.readouterr().out.splitlines()[0] == "Successfully cancelled partition reassignment for: t-0"
    assert cancel(Admin(list_partition_reassignments={}), arguments("cancel", file)) == 0
    assert capsys.readouterr().out == "None of the specified partition moves are active.\n"


# Throttles


@pytest.mark.parametrize(
    ("target", "moves", "leaders", "followers", "brokers"),
    [
        ({0: [2, 3], 1: [3, 1]}, {}, "0:1,0:2,1:1,1:2", "0:3,1:3", {1, 2, 3}),
        ({0: [2, 1]}, {}, "0:1,0:2", None, {1, 2}),
        ({1: [2, 4]}, {0: MOVE}, "0:1,0:2,1:1,1:2", "0:3,1:4", {1, 2, 3, 4}),
        ({0: [4]}, {0: MOVE}, "0:1,0:2", "0:4", {1, 2, 4}),
    ],
)
def test_what_is_throttled(
    target: dict[int, list[int]],
    moves: dict[int, dict[str, list[int]]],
    leaders: str,
    followers: str | None,
    brokers: set[int],
) -> None:
    """Leader throttles name the current replicas, follower throttles the new ones; for a running reassignment the
    leader throttles name the replicas at its start."""
    current = {TopicPartition("t", index): [1, 2] for index in range(2)}
    found = throttles_of(
        {TopicPartition("t", index): replicas for index, replicas in target.items()},
        current,
        {TopicPartition("t", index): move for index, move in moves.items()},
    )
    settings = {"leader.replication.throttled.replicas": leaders}
    if followers is not None:
        settings["follower.replication.throttled.replicas"] = followers
    assert found == Throttles({"t": settings}, brokers)


def test_a_throttle_is_set_before_the_reassignment_begins(
    tmp_path: Path, changes: list[Change], capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "moves.json", (0, [1, 3]))
    cluster = Admin(describe_topics=TOPICS, list_partition_reassignments={}, alter_partition_reassignments={})
    assert execute(cluster, arguments("execute", file, "--throttle", "5000")) == 0
    rates = [("leader.replication.throttled.rate", 0, "5000"), ("follower.replication.throttled.rate", 0, "5000")]
    replicas = [
        ("leader.replication.throttled.replicas", 0, "0:1,0:2"),
        ("follower.replication.throttled.replicas", 0, "0:3"),
    ]
    assert changes == [("TOPIC", "t", replicas), *[("BROKER", broker, rates) for broker in "123"]]
    assert "The inter-broker throttle limit was set to 5000 B/s" in capsys.readouterr().out


@pytest.mark.parametrize("kept", [True, False])
def test_throttles_are_removed_once_no_reassignment_is_running(
    tmp_path: Path, changes: list[Change], kept: bool
) -> None:
    more = ["--preserve-throttles"] if kept else []
    file = write(tmp_path / "moves.json", (0, [1, 2]))
    answers = {"describe_topics": TOPICS, "describe_cluster": BROKERS}
    busy = Admin(**answers, list_partition_reassignments={TopicPartition("other", 0): MOVE})
    assert verify(busy, arguments("verify", file)) == 0
    assert changes == []
    assert verify(Admin(**answers, list_partition_reassignments={}), arguments("verify", file, *more)) == 0
    assert [(kind, name) for kind, name, _ in changes] == (
        [] if kept else [("BROKER", "1"), ("BROKER", "2"), ("BROKER", "3"), ("TOPIC", "t")]
    )
    assert all(op == 1 and value is None for *_, each in changes for _, op, value in each)


def test_verify_prints_json_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "moves.json", (0, [1, 2]))
    cluster = Admin(describe_topics=TOPICS, describe_cluster=BROKERS, list_partition_reassignments={})
    assert verify(cluster, arguments("verify", file, "--json")) == 0
    assert json.loads(capsys.readouterr().out) == {"t-0": "completed"}


# Log directories


def with_log_dirs(path: Path, *log_dirs: str) -> Path:
    path.write_text(
        json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": list(log_dirs)}]})
    )
    return path


def described(broker: int, **directories: bool) -> dict[str, Any]:
    """Partition 0 of ``t`` in some directories of a broker; whether it is a copy there."""
    return {
        "broker": broker,
        "log_dirs": [
            {
                "log_dir": f"/{name}",
                "topics": [{"name": "t", "partitions": [{"partition_index": 0, "is_future_key": is_future}]}],
            }
            for name, is_future in directories.items()
        ],
    }


def test_the_log_dirs_of_a_file(tmp_path: Path) -> None:
    assert read_log_dirs(with_log_dirs(tmp_path / "f", "any", "/b")) == {ReplicaPlace("t", 0, 2): "/b"}
    assert read_log_dirs(write(tmp_path / "f", (0, [1, 2]))) == {}
    with pytest.raises(UsageError, match="t-0 has 2 replicas, but 1 log_dirs"):
        read_log_dirs(with_log_dirs(tmp_path / "f", "any"))
    file = tmp_path / "f"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": 1}]}')
    with pytest.raises(UsageError, match="t-0: its log_dirs are no list"):
        read_log_dirs(file)


def test_moves_begin_once_their_brokers_have_the_replicas(
    tmp_path: Path, changes: list[Change], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = with_log_dirs(tmp_path / "f", "/a", "/b")
    cluster = Admin(describe_topics=TOPICS, list_partition_reassignments={}, alter_partition_reassignments={})
    asked: list[dict[tuple[str, int, int], str]] = []

    def answer(wanted: dict[tuple[str, int, int], str]) -> dict[tuple[str, int, int], Any]:
        asked.append(dict(wanted))
        late = [replica for replica in wanted if replica[2] == 2 and len(asked) < 3]
        return {r: Errno(ErrorCode.REPLICA_NOT_AVAILABLE if r in late else ErrorCode.NONE) for r in wanted}

    monkeypatch.setattr(cluster, "alter_replica_log_dirs", answer, raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert execute(cluster, arguments("execute", file, "--replica-alter-log-dirs-throttle", "7")) == 0
    assert asked == [{("t", 0, 1): "/a", ("t", 0, 2): "/b"}, {("t", 0, 2): "/b"}, {("t", 0, 2): "/b"}]
    rate = [("replica.alter.log.dirs.io.max.bytes.per.second", 0, "7")]
    assert changes == [("BROKER", "1", rate), ("BROKER", "2", rate)]
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "Successfully started moving log directory to /a for replica t-0 with broker 1",
        "Successfully started moving log directory to /b for replica t-0 with broker 2",
    ]


class Errno:
    """An error class of the library."""

    def __init__(self, code: ErrorCode) -> None:
        self.errno = int(code)


@pytest.mark.parametrize(
    ("code", "timeout", "said"),
    [
        (ErrorCode.LOG_DIR_NOT_FOUND, "10000", "LOG_DIR_NOT_FOUND.*t-0-2: /b"),
        (ErrorCode.REPLICA_NOT_AVAILABLE, "0", "t-0-2 have not begun: use a longer --timeout"),
    ],
)
def test_a_move_that_does_not_begin(tmp_path: Path, code: ErrorCode, timeout: str, said: str) -> None:
    file = with_log_dirs(tmp_path / "f", "any", "/b")
    cluster = Admin(
        describe_topics=TOPICS,
        list_partition_reassignments={},
        alter_partition_reassignments={},
        alter_replica_log_dirs={("t", 0, 2): Errno(code)},
    )
    with pytest.raises(ApiError, match=said):
        execute(cluster, arguments("execute", file, "--timeout", timeout))


@pytest.mark.parametrize(
    ("directories", "line", "code"),
    [
        ([described(2, b=False)], "Reassignment of replica t-0-2 completed successfully.", 0),
        ([described(2, a=False, b=True)], "Reassignment of replica t-0-2 is still in progress.", 1),
        ([described(2, a=False)], "Reassignment of replica t-0-2 failed: it is not being moved from /a to /b.", 1),
        (
            [described(2, a=False, c=True)],
            "Reassignment of replica t-0-2 failed: it is being moved to /c instead of /b.",
            1,
        ),
        ([described(2)], "Reassignment of replica t-0-2 failed: it is in no live log directory.", 1),
    ],
)
def test_verify_of_moves(
    tmp_path: Path,
    changes: list[Change],
    capsys: pytest.CaptureFixture[str],
    directories: list[dict[str, Any]],
    line: str,
    code: int,
) -> None:
    file = with_log_dirs(tmp_path / "f", "any", "/b")
    cluster = Admin(
        describe_topics=TOPICS,
        list_partition_reassignments={},
        describe_cluster=BROKERS,
        describe_log_dirs=directories,
    )
    assert verify(cluster, arguments("verify", file)) == code
    assert line in capsys.readouterr().out.splitlines()
    assert bool(changes) == ("in progress" not in line)


def test_cancel_of_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The replica is asked for where it is."""
    file = with_log_dirs(tmp_path / "f", "/c", "/b")
    cluster = Admin(
        list_partition_reassignments={},
        describe_cluster=BROKERS,
        describe_log_dirs=[described(1, a=False, b=True), described(2, a=False, b=True)],
        alter_replica_log_dirs={("t", 0, 2): Errno(ErrorCode.NONE)},
    )
    assert cancel(cluster, arguments("cancel", file)) == 0
    assert ("alter_replica_log_dirs", {("t", 0, 2): "/a"}) in cluster.calls
    assert "Successfully cancelled log directory move for: t-0-2" in capsys.readouterr().out.splitlines()
