"""``kafkalite reassign``: proposals, and how moves are shown."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kafkalite.cli.main import UsageError
from kafkalite.cli.reassign import by_rack, cancel, execute, list_moves, propose, read_assignment, verify
from kafkalite.common.errors import ApiError
from kafkalite.common.types import TopicPartition

from .helpers import Admin, parse, topic

MOVE = {"replicas": [1, 2, 3], "adding_replicas": [3], "removing_replicas": [1]}
TOPICS = [topic("t", (1, [1, 2], [1, 2]), (2, [2, 1], [2, 1]))]


def write(path: Path, *partitions: tuple[int, list[int]]) -> Path:
    entries = [{"topic": "t", "partition": index, "replicas": replicas} for index, replicas in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


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


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"partitions": [{"topic": "t"}]}', '{"partitions": []}'])
def test_files_that_are_something_else(text: str, tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"moves\.json: "):
        read_assignment(file)


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
    idle = Admin(describe_topics=TOPICS, list_partition_reassignments={})
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
    with pytest.raises(ApiError, match="another reassignment is under way"):
        execute(busy, arguments("execute", file))
    with pytest.raises(ApiError, match="t-7"):
        execute(cluster, arguments("execute", write(file, (7, [1]))))


def test_cancel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "moves.json", (0, [2, 3]), (1, [3, 1]))
    cluster = Admin(list_partition_reassignments={TopicPartition("t", 0): MOVE}, alter_partition_reassignments={})
    assert cancel(cluster, arguments("cancel", file)) == 0
    assert [(tp.partition, replicas) for tp, replicas in cluster.calls[-1][1].items()] == [(0, None)]
    assert capsys.readouterr().out == "Successfully cancelled partition reassignment for: t-0\n"
    assert cancel(Admin(list_partition_reassignments={}), arguments("cancel", file)) == 0
    assert capsys.readouterr().out == "None of the specified partition moves are active.\n"
