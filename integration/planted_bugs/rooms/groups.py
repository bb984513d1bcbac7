"""Planted bugs of consumer groups and their offsets."""

from __future__ import annotations

from typing import Final

from integration.planted_bugs.bug import Edit, PlantedBug

_ROOM: Final = "groups"

BUGS: Final = (
    PlantedBug(
        "commit-in-any-generation",
        _ROOM,
        "coordinator/group/group_metadata.py",
        "            error = self._check_generation(member_id, instance_id, generation)\n"
        "            if error is not ErrorCode.NONE or transactional:\n",
        "            error = self._check_member(member_id, instance_id)\n"
        "            if error is not ErrorCode.NONE or transactional:\n",
        "a member commits in the present generation only",
        "rebalances",
    ),
    PlantedBug(
        "commit-of-former-members",
        _ROOM,
        "coordinator/group/group_metadata.py",
        "            error = self._check_generation(member_id, instance_id, generation)\n"
        "            if error is not ErrorCode.NONE or transactional:\n",
        "            error = ErrorCode.NONE\n            if transactional:\n",
        "who is no member any more commits nothing",
        "members that sleep through a rebalance",
    ),
    PlantedBug(
        "heartbeat-in-any-generation",
        _ROOM,
        "coordinator/group/group_metadata.py",
        "        error = self._check_generation(request.member_id, request.instance_id, request.generation)\n"
        "        if error is not ErrorCode.NONE:\n            return error\n        self._touch(",
        "        error = self._check_member(request.member_id, request.instance_id)\n"
        "        if error is not ErrorCode.NONE:\n            return error\n        self._touch(",
        "a member of a generation that is over learns it by its heartbeat",
        "rebalances that a member did not hear of",
    ),
    PlantedBug(
        "dead-members-stay",
        _ROOM,
        "coordinator/group/group_metadata.py",
        "member.deadline = now + member.session_timeout_ms / 1000\n",
        "member.deadline = now + member.session_timeout_ms\n",
        "a member whose session is over is removed, and its partitions go to others",
        "members that are killed",
    ),
    PlantedBug(
        "offsets-acknowledged-early",
        _ROOM,
        "coordinator/offsets/offset_manager.py",
        "        outcome.update(await self._writer.write(group, accepted, claim))\n        return outcome\n",
        '        spawn(self._writer.write(group, accepted, claim), "writing offsets")\n'
        "        outcome.update(dict.fromkeys(accepted, ErrorCode.NONE))\n        return outcome\n",
        "a commit is answered once it is durable",
        "a coordinator that dies, or is cut off from ZooKeeper",
        (
            Edit(
                "coordinator/offsets/offset_manager.py",
                "from kafkalite.common.types import TopicPartition\n",
                "from kafkalite.common.tasks import spawn\nfrom kafkalite.common.types import TopicPartition\n",
            ),
        ),
    ),
    PlantedBug(
        "offsets-cached-over-a-claim",
        _ROOM,
        "coordinator/group/group_coordinator.py",
        "        self._offset_manager.forget(group)\n        self._old.follow(group)\n",
        "        self._old.follow(group)\n",
        "three lines: a new coordinator reads the offsets after its claim; what was read counts no more once the "
        "connection is lost, or its watch",
        "coordinators that move, lost connections to ZooKeeper",
        (
            Edit(
                "zk/stores/watched_reads.py",
                "        if state is not SessionState.CONNECTED:\n            for cells",
                "        if state is SessionState.EXPIRED:\n            for cells",
            ),
            Edit(
                "zk/stores/watched_reads.py",
                "        if cell is None:\n            return\n        _invalidate(cell)\n        if event",
                "        if cell is None or event.type is EventType.LOST:\n            return\n"
                "        _invalidate(cell)\n        if event",
            ),
        ),
    ),
    PlantedBug(
        "generations-begin-anew",
        _ROOM,
        "coordinator/group/group_metadata.py",
        "        group._generation = generation.number\n        group._protocol_type",
        "        group._protocol_type",
        "a new coordinator goes on with the generation of the former one",
        "a coordinator dies",
    ),
    PlantedBug(
        "assignment-given-out-early",
        _ROOM,
        "coordinator/group/group_metadata.py",
        "        self._emit(StoreGeneration(StoreKind.ASSIGNMENT, self._snapshot(), records))\n",
        "        self._emit(StoreGeneration(StoreKind.ASSIGNMENT, self._snapshot(), records))\n"
        "        self._become_stable({record.member_id: record.assignment for record in records}, 0.0)\n",
        "an assignment is given out once it is durable",
        "a coordinator dies during a rebalance",
    ),
    PlantedBug(
        "cut-off-coordinator-goes-on",
        _ROOM,
        "coordinator/group/group_metadata_manager.py",
        "            self._silence = self._clock.call_later(self._session_timeout, self._give_up)\n"
        "            return\n",
        "            return\n",
        "two lines: a coordinator without ZooKeeper gives its groups up, and its commits are fenced by its claim",
        "a coordinator that is cut off from ZooKeeper",
        (
            Edit(
                "zk/stores/claims.py",
                "        return WriteFence(self.check(), self.session)\n",
                "        return WriteFence(None if self.base else self.check(), self.session)\n",
            ),
        ),
    ),
    PlantedBug(
        "static-double-is-not-fenced",
        _ROOM,
        "coordinator/group/group_metadata.py",
        "            if current != member_id:\n                return ErrorCode.FENCED_INSTANCE_ID\n",
        "            if current != member_id:\n                return ErrorCode.NONE\n",
        "of two members with one instance id the older one is fenced",
        "a static member that restarts while it still runs",
    ),
    PlantedBug(
        "later-offset-is-overtaken",
        _ROOM,
        "coordinator/offsets/offset_writer.py",
        "        if key in self._under_way:\n            behind = self._under_way[key]\n"
        "            if behind is None:\n                self._under_way[key] = pending\n"
        "            else:\n                behind.overtaken_by(pending)\n        elif key in self._ready:\n",
        "        if key in self._ready:\n",
        "of each partition one commit at a time is being written",
        "commits one after the other, lost connections to ZooKeeper",
    ),
)
