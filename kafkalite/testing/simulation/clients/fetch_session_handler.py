"""The client's half of a fetch session: full and incremental requests, and the start of new sessions.

Answers to: ``org.apache.kafka.clients.FetchSessionHandler``. Pure.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.protocol.fetch import FetchPartition, ForgottenPartition
from kafkalite.testing.simulation.clients.cluster import Leader

INITIAL, FINAL = 0, -1
_MAX_EPOCH = 0x7FFFFFFF

Wanted = tuple[int, Leader, uuid.UUID]
"""Fields of a partition's fetch: offset, leader, topic id."""


class FetchSessionHandler:
    """The session with one broker."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = INITIAL
        self._sent: dict[TopicPartition, Wanted] = {}
        self._names: dict[uuid.UUID, str] = {}

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that an answer may contain."""
        return list(self._sent)

    def build(
        self, wanted: Mapping[TopicPartition, Wanted], max_bytes: int, by_id: bool
    ) -> tuple[list[FetchPartition], list[ForgottenPartition]]:
        """The partitions to send, and the partitions to forget, for a fetch of ``wanted``."""
        full = self.epoch == INITIAL
        named: list[FetchPartition] = []
        forgotten: list[ForgottenPartition] = []
        if not full:
            for partition, (_, _, topic_id) in self._sent.items():
                # A topic that was created again under its old name leaves the session under its old id.
                if partition not in wanted or wanted[partition][2] != topic_id:
                    forgotten.append(
                        (None if by_id else partition.topic, topic_id if by_id else ZERO_UUID, partition.partition)
                    )
        for partition in sorted(wanted):
            offset, leader, topic_id = wanted[partition]
            if full or self._sent.get(partition) != wanted[partition]:
                named.append(
                    FetchPartition(
                        None if by_id else partition.topic,
                        topic_id if by_id else ZERO_UUID,
                        partition.partition,
                        leader.epoch,
                        offset,
                        max_bytes=max_bytes,
                    )
                )
        self._sent = dict(wanted)
        self._names = {topic_id: partition.topic for partition, (_, _, topic_id) in wanted.items()}
        return named, sorted(forgotten, key=lambda entry: (entry[0] or "", entry[1].bytes, entry[2]))

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        """The topic of an answer's partition; ``None`` if it is not in the session."""
        return self._names.get(topic_id)

    def answered(self, code: ErrorCode, session_id: int, answered: list[TopicPartition]) -> bool:
        """Process an answer's header; returns whether the answer's partitions may be used."""
        if code:
            self.reset(keep_id=code is not ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return False
        if self.epoch == INITIAL:
            if session_id == 0 or set(answered) != set(self._sent):
                complete = set(answered) == set(self._sent)
                self.reset(keep_id=False)
                return complete
            self.id, self.epoch = session_id, 1
            return True
        if any(partition not in self._sent for partition in answered) or session_id not in (0, self.id):
            self.reset(keep_id=True)
            return False
        if session_id == 0:
            self.reset(keep_id=False)
        else:
            self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1
        return True

    def reset(self, *, keep_id: bool) -> None:
        """The next request is a full one; ``keep_id``: it ends the old session, too."""
        self.epoch = INITIAL
        if not keep_id:
            self.id = 0
