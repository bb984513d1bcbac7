"""Each committed write comes from the session of the broker whose role allows it: controller, leader, coordinator.

Answers to: nothing in Kafka. Pure: a fold over the committed changes of znodes.

Each write is checked, because the end of a history shows a write of a former controller, leader or coordinator only if
it did harm. The rules:

- the session that claimed ``/controller`` last creates and deletes partition states, and gives them new leader epochs,
  under the current controller epoch; the controller adds no replica to an ISR, because it would do so only by
  overwriting the leader's removal of that replica;
- the leader writes a state without changing its leader epoch, in the session of its registration; it changes only the
  ISR, and records for each joining member the unclean start epoch with which the member was in sync;
- the controller deletes topics, and the requests to delete them;
- below a claimed path (a group, a part of the transactions) the holder of the claim writes; transaction coordinators
  also write a group's offsets, and the controller deletes them with their topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.invariants import STATE_PATH, Kind, ZnodeChange
from kafkalite.zk.zk_client import ZnodeStat
from kafkalite.zk.znodes import brokers, claims, topics
from kafkalite.zk.znodes.codec import MalformedZnodeError

_TAKEN_AWAY_BY_CONTROLLER: Final = re.compile(r"^/(brokers/topics/[^/]+|admin/delete_topics/[^/]+)$")
_CLAIMED: Final = re.compile(r"^(/consumers/[^/]+|/transactions/\d+(?=/ids/))/(?!coordinator$|coordinator_epoch$).")
_OFFSETS: Final = re.compile(r"^/consumers/[^/]+/(offsets|commits|staged)(/|$)")
_CLAIM: Final = "/coordinator"
_TRANSACTIONS: Final = "/transactions/"
_NO_STAT: Final = ZnodeStat(0, 0, 0)


class Writers:
    """Keeps the session of each role; :meth:`committed` takes one transaction and returns the violations."""

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}
        self._epoch = 0
        self._states: dict[str, LeaderAndIsr] = {}
        self._found: list[str] = []

    def committed(self, zxid: int, session: int, changes: Iterable[ZnodeChange]) -> list[str]:
        """The violations in the transaction ``zxid`` of ``session``, a line each."""
        self._found = []
        listed = list(changes)
        holders = dict(self._holders)
        for change in listed:
            self._note(session, change)
        for change in listed:
            # A role counts if the session held it before the transaction, or takes it in the transaction.
            self._judge(session, change, holders)
        return [f"zxid {zxid:#x}, session {session:#x}: {line}" for line in self._found]

    def _note(self, session: int, change: ZnodeChange) -> None:
        path = change.path
        is_office = path == claims.CONTROLLER or path.endswith(_CLAIM) or path.startswith(f"{brokers.IDS}/")
        if is_office and change.kind is Kind.CREATED:
            self._holders[path] = session
        elif path.startswith(f"{brokers.IDS}/") and change.kind is Kind.DELETED:
            self._holders.pop(path, None)  # Claims end with the next one, because it raises the epoch that fences.
        elif path == claims.CONTROLLER_EPOCH and change.kind is not Kind.DELETED:
            self._epoch = int(change.data)

    def _judge(self, session: int, change: ZnodeChange, before: dict[str, int]) -> None:
        def holds(path: str) -> bool:
            return session in (before.get(path), self._holders.get(path))

        path = change.path
        if match := STATE_PATH.match(path):
            self._state(TopicPartition(match[1], int(match[2])), change, holds(claims.CONTROLLER), session)
        elif match := _CLAIMED.match(path):
            is_allowed = holds(match[1] + _CLAIM)
            if not is_allowed and _OFFSETS.match(path):
                offices = [each for each in before if each.startswith(_TRANSACTIONS)]
                is_allowed = any(map(holds, (claims.CONTROLLER, *offices)))
            if not is_allowed:
                self._found.append(f"{path} was {change.kind.value} by a session that does not coordinate {match[1]}")
        elif _TAKEN_AWAY_BY_CONTROLLER.match(path) and change.kind is Kind.DELETED and not holds(claims.CONTROLLER):
            self._found.append(f"{path} was deleted by a session that is not the controller's")

    def _state(self, tp: TopicPartition, change: ZnodeChange, is_controller: bool, session: int) -> None:
        before = self._states.pop(change.path, None)
        if change.kind is Kind.DELETED:
            if not is_controller:
                self._found.append(f"the state of {tp} was deleted by a session that is not the controller's")
            return
        try:
            state = topics.decode_state(tp, change.data, _NO_STAT)
        except MalformedZnodeError:
            return  # the invariants of the znodes report it
        self._states[change.path] = state
        epoch = f"leader epoch {state.leader_epoch} of {tp}"
        if before is None or state.leader_epoch != before.leader_epoch:
            if not is_controller:
                self._found.append(f"{epoch} was begun by a session that is not the controller's")
            elif state.controller_epoch != self._epoch:
                self._found.append(f"{epoch} was begun in controller epoch {state.controller_epoch} of {self._epoch}")
            elif before is not None and not set(state.isr) <= set(before.isr):
                self._found.append(
                    f"{epoch} was begun with the ISR {list(state.isr)}, the leader's was {list(before.isr)}"
                )
        elif self._holders.get(brokers.broker_path(state.leader)) != session:
            self._found.append(f"{tp}: the ISR {list(state.isr)} was written in another session than its leader's")
        elif (state.leader, state.controller_epoch) != (before.leader, before.controller_epoch):
            self._found.append(f"{tp}: the leader changed more than the ISR")
        joined = [replica for replica in state.isr if before is None or replica not in before.isr]
        recorded = {replica for replica, _ in state.unclean_start_epochs}
        if not recorded.issuperset(joined):
            self._found.append(f"{tp}: it is not said since when {joined} that joined the ISR are in sync")
