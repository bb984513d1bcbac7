"""The source of ``kafkalite groups``, which reads and changes groups: coordinators, leaders, ZooKeeper.

Answers to: ``org.apache.kafka.clients.admin.Admin`` as ``ConsumerGroupCommand`` uses it. Reactor shell (a library).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, TypeVar

from kafkalite.cli.clients import admin_client
from kafkalite.cli.groups_view import CLASSIC, DEAD, EMPTY, STABLE, GroupView, MemberView
from kafkalite.cli.groups_zookeeper import OldGroups
from kafkalite.cli.zookeeper_security import read_zookeeper_security
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient
    from kafka.errors import KafkaError

T = TypeVar("T")
EARLIEST, LATEST = -2, -1
PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""Errors of a group whose coordinator changes: asked again with a new client, which finds the new coordinator."""
RETRY_SECONDS = 0.2


class AssignedTopic(TypedDict):
    """A topic in the assignment of a member."""

    topic: str
    partitions: list[int]


class LibraryAssignment(TypedDict):
    """The assignment of a member, decoded by kafka-python."""

    assigned_partitions: list[AssignedTopic]


class LibraryMember(TypedDict):
    """A member as kafka-python's admin client describes it; an assignment that it cannot decode stays bytes."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_assignment: LibraryAssignment | bytes | None


class LibraryGroup(TypedDict, total=False):
    """A group as kafka-python's admin client describes it."""

    error: str | None
    group_state: str
    protocol_data: str
    members: list[LibraryMember]


class GroupSource:
    """Groups of both kinds. Raises the library's errors, :class:`ApiError`, ``OSError`` and ``ConfigError``."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._admin: KafkaAdminClient = None
        self._admins = ExitStack()
        self._security = read_zookeeper_security(args.zk_tls_config_file)
        self._old: OldGroups | None = OldGroups(args.zookeeper, self._security) if args.zookeeper else None
        try:
            if not args.bootstrap_server and self._old is not None:
                args.bootstrap_server = self._old.bootstrap()
            self._connect()
            if self._old is None:
                self._find_zookeeper()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._admins.close()
        if self._old is not None:
            self._old.__exit__(None, None, None)

    # Queries

    def listing(self) -> list[tuple[str, str, str]]:
        """(group, type, state) of all groups, sorted."""
        found = {
            str(entry["group_id"]): (CLASSIC, str(entry.get("group_state") or "Unknown"))
            for entry in self._ask(lambda admin: admin.list_groups())
        }
        if self._old is not None:
            for name in self._old.names():
                kind, state = found.get(name, (CLASSIC, EMPTY))
                if self._old.members(name):
                    group = self.describe([name], offsets=False)[0]
                    kind, state = group.kind, group.state
                found[name] = (kind, state)
        return sorted((name, kind, state) for name, (kind, state) in found.items())

    def describe(self, names: Sequence[str], *, offsets: bool = True) -> list[GroupView]:
        """Groups by name; an unknown group has the state ``Dead``."""
        groups = [self._describe(name, with_offsets=offsets) for name in names]
        if offsets:
            ends = self.log_offsets({tp for group in groups for tp in _partitions(group)}, LATEST)
            groups = [replace(group, ends=ends) for group in groups]
        return groups

    def partitions(self) -> dict[str, list[int]]:
        """Topic → partitions that have a leader."""
        return {
            topic["name"]: sorted(p["partition_index"] for p in topic["partitions"] if p["leader_id"] >= 0)
            for topic in self._admin.describe_topics(None)
        }

    def log_offsets(self, partitions: Collection[TopicPartition], moment: int) -> dict[TopicPartition, int]:
        """First offset at or after ``moment`` (milliseconds, :data:`EARLIEST`, :data:`LATEST`), if there is one."""
        from kafka import TopicPartition as LibraryPartition

        existing = self.partitions() if partitions else {}
        asked = {LibraryPartition(*tp): moment for tp in partitions if tp.partition in existing.get(tp.topic, ())}
        found = self._admin.list_partition_offsets(asked) if asked else {}
        return {TopicPartition(*tp): entry.offset for tp, entry in found.items() if entry.offset >= 0}

    # Changes

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ErrorCode]:
        """Set offsets of a group without members."""
        from kafka import TopicPartition as LibraryPartition
        from kafka.structs import OffsetAndMetadata

        wanted = {LibraryPartition(*tp): OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()}
        return self._each(lambda admin: admin.alter_group_offsets(group, wanted))

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Delete offsets of a group that does not read their topics now."""
        from kafka import TopicPartition as LibraryPartition

        wanted = [LibraryPartition(*tp) for tp in partitions]
        return self._each(lambda admin: admin.delete_group_offsets(group, wanted))

    def delete(self, group: str) -> ErrorCode:
        """Delete a group without members, and all its offsets."""

        def ask(admin: KafkaAdminClient) -> ErrorCode:
            outcome = admin.delete_groups([group])
            code = _code(outcome[group] if isinstance(outcome, dict) else outcome[0][1])
            if code in PASSING:
                raise ApiError(code, group)
            return code

        return self._ask(ask)

    # Inside

    def _describe(self, name: str, with_offsets: bool) -> GroupView:
        described = self._ask(lambda admin: _described(admin, name))
        state = str(described.get("group_state") or DEAD)
        members = [_member(entry) for entry in described.get("members", ())]
        old = self._old.members(name) if self._old is not None else []
        committed: dict[TopicPartition, int] = {}
        if with_offsets or (state == DEAD and not old):
            found = self._ask(lambda admin: admin.list_group_offsets({name: None})[name])
            committed = {TopicPartition(*tp): entry.offset for tp, entry in found.items() if entry.offset >= 0}
        if self._old is not None and not members:
            committed = {**self._old.offsets(name), **committed}  # real Kafka brokers do not know these
        if state == DEAD and (committed or old):
            state = EMPTY
        if old and not members:
            state = STABLE
        return GroupView(
            name,
            state,
            None if old and not members else self._coordinator(name),
            "range" if old and not members else str(described.get("protocol_data") or ""),
            (*members, *old),
            committed,
        )

    def _coordinator(self, group: str) -> tuple[int, str, int] | None:
        manager = self._admin._manager
        number = self._ask(lambda admin: admin._manager.run(admin._find_coordinator_id, group))
        broker = manager.cluster.broker_metadata(number)
        return None if broker is None else (int(number), str(broker.host), int(broker.port))

    def _connect(self) -> None:
        self._admins.close()
        self._admin = self._admins.enter_context(admin_client(self._args))

    def _find_zookeeper(self) -> None:
        """Ask a broker for its ZooKeeper, because ZooKeeper consumers are recorded only there."""
        from kafka.admin import ConfigResource, ConfigResourceType

        broker = str(self._admin.describe_cluster()["brokers"][0]["broker_id"])
        described = self._admin.describe_configs(
            [ConfigResource(ConfigResourceType.BROKER, broker, ["zookeeper.connect"])], config_filter="all"
        )
        connect = described.get("broker", {}).get(broker, {}).get("zookeeper.connect", {}).get("value")
        if not connect:
            return
        try:
            old = OldGroups(connect, self._security)
            old.check()
            self._old = old
        except OSError as error:
            print(f"ZooKeeper consumers are not shown (--zookeeper, --zk-tls-config-file): {error}", file=sys.stderr)

    def _ask(self, ask: Callable[[KafkaAdminClient], T]) -> T:
        """``ask(admin)``, repeated with a new client for ``--timeout`` while the coordinator changes."""
        from kafka.errors import KafkaError

        deadline = time.monotonic() + self._args.timeout / 1000
        while True:
            try:
                return ask(self._admin)
            except (ApiError, KafkaError) as error:
                code = error.code if isinstance(error, ApiError) else getattr(error, "errno", None)
                if code not in PASSING or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_SECONDS)
            self._connect()

    def _each(
        self, ask: Callable[[KafkaAdminClient], Mapping[tuple[str, int], type[KafkaError] | str]]
    ) -> dict[TopicPartition, ErrorCode]:
        def checked(admin: KafkaAdminClient) -> dict[TopicPartition, ErrorCode]:
            codes = {TopicPartition(*tp): _code(error) for tp, error in ask(admin).items()}
            for tp, code in codes.items():
                if code in PASSING:
                    raise ApiError(code, str(tp))
            return codes

        return self._ask(checked)


def _described(admin: KafkaAdminClient, group: str) -> LibraryGroup:
    described: LibraryGroup = admin.describe_groups([group])[group]
    error = described.get("error")
    if error:
        for code in ErrorCode:
            if f"[Error {int(code)}]" in error:
                if code == ErrorCode.GROUP_ID_NOT_FOUND:
                    return {"group_state": DEAD}
                raise ApiError(code, error)
        raise OSError(error)
    return described


def _member(entry: LibraryMember) -> MemberView:
    assignment = entry.get("member_assignment")
    return MemberView(
        entry["member_id"],
        entry["client_host"],
        entry["client_id"],
        entry.get("group_instance_id") or "",
        tuple(
            TopicPartition(topic["topic"], partition)
            for topic in (assignment.get("assigned_partitions", ()) if isinstance(assignment, dict) else ())
            for partition in topic["partitions"]
        ),
    )


def _partitions(group: GroupView) -> set[TopicPartition]:
    return {*group.committed, *(tp for member in group.members for tp in member.partitions)}


def _code(error: type[KafkaError] | str) -> ErrorCode:
    """The code of one of the library's error classes, or of its name."""
    import kafka.errors

    if not isinstance(error, str):
        return ErrorCode(error.errno)
    return ErrorCode(kafka.errors.NoError.errno if error == "OK" else getattr(kafka.errors, error).errno)
