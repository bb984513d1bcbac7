"""The groups of ZooKeeper consumers, read from ``/consumers``.

Answers to: ``kafka.admin.ConsumerGroupCommand.ZkConsumerGroupService`` (0.10). Plain blocking sockets, no reactor.
"""

from __future__ import annotations

from collections import defaultdict
from types import TracebackType

from kafkalite.cli.groups_view import MemberView, old_host
from kafkalite.common.types import TopicPartition
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.zk.session_security import ZkSecurity
from kafkalite.zk.znodes.brokers import IDS, decode_broker
from kafkalite.zk.znodes.codec import MalformedZnodeError, decode_name
from kafkalite.zk.znodes.consumers import CONSUMERS, decode_offset, group_path, ids_path, offset_path, offsets_path


class OldGroups:
    """Reads ``/consumers``. ``security``: of the connection. Raises ``OSError`` if ZooKeeper does not answer."""

    def __init__(self, connect: str, security: ZkSecurity | None = None) -> None:
        self._zookeeper = ZnodeReader(connect, security)

    def __enter__(self) -> OldGroups:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zookeeper.close()

    def check(self) -> None:
        """Raise ``OSError`` if ZooKeeper lets this client read nothing."""
        self._zookeeper.get(CONSUMERS)

    def bootstrap(self) -> str:
        """``host:port,…`` of the live brokers' plain listeners. Raises ``OSError`` if there is none."""
        addresses = []
        for name in self._zookeeper.children(IDS):
            data = self._zookeeper.get(f"{IDS}/{name}")
            for endpoint in decode_broker(int(name), data).endpoints if data is not None else ():
                if endpoint.security_protocol == "PLAINTEXT":
                    addresses.append(f"{endpoint.host}:{endpoint.port}")
        if not addresses:
            raise OSError("no broker with a PLAINTEXT listener is registered; give --bootstrap-server")
        return ",".join(addresses)

    def names(self) -> list[str]:
        """Groups that ZooKeeper consumers are in, or that have offsets: all groups that exist without a coordinator."""
        names = []
        for child in self._zookeeper.children(CONSUMERS):
            group = decode_name(child)
            if self._zookeeper.children(ids_path(group)) or self._zookeeper.children(offsets_path(group)):
                names.append(group)
        return names

    def members(self, group: str) -> list[MemberView]:
        """Live ZooKeeper consumers: one entry for each stream with partitions, or one for a consumer without any."""
        owned: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        owners = f"{group_path(group)}/owners"
        for topic in self._zookeeper.children(owners):
            for partition in self._zookeeper.children(f"{owners}/{topic}"):
                data = self._zookeeper.get(f"{owners}/{topic}/{partition}")
                if data is not None:
                    owned[data.decode(errors="replace")].append(TopicPartition(topic, int(partition)))
        members = []
        for consumer in map(decode_name, self._zookeeper.children(ids_path(group))):
            streams = {thread: tps for thread, tps in owned.items() if thread.rpartition("-")[0] == consumer}
            for thread, partitions in sorted(streams.items()) or [(consumer, [])]:
                place = old_host(group, consumer)
                members.append(MemberView(thread, place, "", partitions=tuple(sorted(partitions)), is_old=True))
        return members

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """The committed offsets, of any writer; a value that is no number is left out."""
        found = {}
        for topic in self._zookeeper.children(offsets_path(group)):
            for partition in self._zookeeper.children(f"{offsets_path(group)}/{topic}"):
                tp = TopicPartition(topic, int(partition))
                data = self._zookeeper.get(offset_path(group, tp))
                try:
                    found[tp] = decode_offset(offset_path(group, tp), data or b"")
                except MalformedZnodeError:
                    continue
        return found
