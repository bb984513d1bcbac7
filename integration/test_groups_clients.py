"""Consumer groups with each client library, and with all libraries in one group."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.harness.groups import (
    SOON,
    Ground,
    GroupSuite,
    doomed,
    ground,
    host,
    parts,
    values,
    wait_shares,
    wait_values,
)
from integration.harness.java_consumer import java_host
from integration.harness.members import Member, MemberHost, python_host

__all__ = ["doomed", "ground", "host"]  # fixtures


class TestConfluent(GroupSuite):
    """librdkafka."""

    assignors = ("range", "roundrobin", "cooperative-sticky")

    @staticmethod
    def new_host(log: Path) -> MemberHost:
        return python_host("confluent", log)


@pytest.mark.full
class TestKafkaPython(GroupSuite):
    """With the library's defaults."""

    assignors = ("range", "roundrobin", "sticky", "cooperative-sticky")

    @staticmethod
    def new_host(log: Path) -> MemberHost:
        return python_host("kafka-python", log)


@pytest.mark.full
class TestAioKafka(GroupSuite):
    """With the library's defaults."""

    @staticmethod
    def new_host(log: Path) -> MemberHost:
        return python_host("aiokafka", log)


class TestJava(GroupSuite):
    """Kafka's own consumer, with the classic protocol."""

    assignors = ("range", "roundrobin", "sticky", "cooperative-sticky")

    @staticmethod
    def new_host(log: Path) -> MemberHost:
        return java_host(log)


def test_all_libraries_in_one_group(ground: Ground, tmp_path: Path) -> None:
    """The group's leader of any library assigns for all members; every record is read once while members join and
    leave."""
    topic = ground.topic(8)
    every = parts(topic, *range(8))
    with ExitStack() as stack:
        hosts = [stack.enter_context(java_host(tmp_path / "java.log"))]
        for library in ("confluent", "kafka-python", "aiokafka"):
            hosts.append(stack.enter_context(python_host(library, tmp_path / f"{library}.log")))
        members: list[Member] = []
        for one in hosts:
            members.append(ground.join(one, topic, assignor="roundrobin"))
            size = len(members)
            wait_shares(members, every, [8 // size + (n < 8 % size) for n in range(size)], SOON)
        while members:
            before = values(record for member in members for record in member.records)
            written = ground.write(topic, range(8), 5)
            wait_values(members, before.total() + 40)
            after = values(record for member in members for record in member.records)
            assert after - before == Counter(written)
            for member in members:
                member.commit()
            ground.leave(members.pop(0))
            size = len(members)
            if members:
                wait_shares(members, every, [8 // size + (n < 8 % size) for n in range(size)], SOON)
