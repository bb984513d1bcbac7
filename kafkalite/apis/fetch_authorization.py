"""What a Fetch request may read: topics for consumers, everything for followers.

Answers to: ``KafkaApis.handleFetchRequest`` where it asks ``AuthHelper``. Deterministic.

Kafka asks for every partition of a session at every fetch. Here a session keeps what is denied apart, and is gone
through again when an ACL has changed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from kafkalite.apis.context import authorize, decisions_of
from kafkalite.apis.fetch_sessions import FetchSession, FetchSessionCache, key_of
from kafkalite.common.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.network.request import Request
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.fetch import FetchPartition, FetchRequest
from kafkalite.security.audit import AUDIT
from kafkalite.security.authorizer_interface import Authorizer

_READ: Final = AclOperation.READ
_TOPIC: Final = AclResourceType.TOPIC


class FetchAuthorization:
    """Divides the partitions of requests and of sessions by what ``authorizer`` decides."""

    def __init__(self, authorizer: Authorizer, sessions: FetchSessionCache) -> None:
        self._authorizer = authorizer
        self._sessions = sessions

    def admits(self, request: Request, fetch: FetchRequest) -> bool:
        """Whether the client may be what it says it is: a follower needs ClusterAction on the cluster."""
        return fetch.replica_id < 0 or authorize(
            self._authorizer,
            request.connection,
            ApiKey.FETCH,
            AclOperation.CLUSTER_ACTION,
            AclResourceType.CLUSTER,
            CLUSTER_NAME,
        )

    def split(
        self, request: Request, fetch: FetchRequest, partitions: list[FetchPartition]
    ) -> tuple[list[FetchPartition], Sequence[FetchPartition]]:
        """Those of ``partitions`` that the client may read, and the others, which are logged."""
        allowed, denied = self._divide(request, fetch, partitions)
        self._log(request, denied)
        return allowed, denied

    def enter(
        self, request: Request, fetch: FetchRequest, session: FetchSession, partitions: list[FetchPartition]
    ) -> tuple[list[FetchPartition], Sequence[FetchPartition]]:
        """As :meth:`split`, for ``partitions`` that enter ``session``; it gets those that are denied here."""
        if session.view is None:
            session.view = decisions_of(self._authorizer, request.connection).view
            session.owner = request.connection.principal
            allowed, denied = self.split(request, fetch, partitions)
        else:
            allowed, denied = self._divide(request, fetch, partitions)
        for partition in allowed:
            session.denied.pop(key_of(partition), None)
        for partition in denied:
            self._sessions.deny(session, key_of(partition), partition)
        return allowed, denied

    def check_owner(self, request: Request, session_id: int) -> None:
        """Raises :class:`ApiError` FETCH_SESSION_ID_NOT_FOUND for a session that another principal has opened."""
        session = self._sessions.peek(session_id)
        if session is not None and session.owner not in (None, request.connection.principal):
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def review(self, request: Request, fetch: FetchRequest, session: FetchSession) -> Sequence[FetchPartition]:
        """The partitions of ``session`` that are denied now, which are logged."""
        view = decisions_of(self._authorizer, request.connection).view
        if session.view != view:
            session.view = view
            allowed, denied = self._divide(request, fetch, [*session.partitions.values(), *session.denied.values()])
            for partition in denied:
                self._sessions.deny(session, key_of(partition), partition)
            for partition in allowed:
                tp = key_of(partition)
                if session.denied.pop(tp, None) is not None:
                    self._sessions.add(session, tp, partition)
                    session.watch.dirty[tp] = None
        if not session.denied:
            return ()
        denied = list(session.denied.values())
        self._log(request, denied)
        return denied

    def _divide(
        self, request: Request, fetch: FetchRequest, partitions: list[FetchPartition]
    ) -> tuple[list[FetchPartition], Sequence[FetchPartition]]:
        if fetch.replica_id >= 0:
            return partitions, ()
        connection = request.connection
        decisions = decisions_of(self._authorizer, connection)
        snapshot = decisions.snapshot
        if snapshot is not None and snapshot.is_current and not AUDIT.isEnabledFor(logging.DEBUG):
            # The same question as at the last request is answered at once.
            known = decisions.readable
            for partition in partitions:
                if partition.topic not in known:
                    break
            else:
                return partitions, ()
        readable = {
            topic
            for topic, count in Counter(partition.topic for partition in partitions).items()
            if topic is not None
            and authorize(
                self._authorizer, connection, ApiKey.FETCH, _READ, _TOPIC, topic, log_denied=False, count=count
            )
        }
        if decisions.snapshot is not None:
            decisions.readable |= readable
        allowed = [partition for partition in partitions if partition.topic in readable]
        if len(allowed) == len(partitions):
            return partitions, ()
        return allowed, [partition for partition in partitions if partition.topic not in readable]

    def _log(self, request: Request, denied: Sequence[FetchPartition]) -> None:
        for topic, count in Counter(partition.topic for partition in denied).items():
            if topic is not None:
                authorize(self._authorizer, request.connection, ApiKey.FETCH, _READ, _TOPIC, topic, count=count)
