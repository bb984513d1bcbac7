"""Planted bugs of transactions: coordinator, markers, last stable offset, staged offsets."""

from __future__ import annotations

from typing import Final

from integration.planted_bugs.bug import Edit, PlantedBug

_ROOM: Final = "transactions"

BUGS: Final = (
    PlantedBug(
        "marker-for-all-but-one",
        _ROOM,
        "coordinator/transaction/transaction_completion.py",
        "        ErrorCode.NONE,\n        # A newer producer",
        "        ErrorCode.NONE,\n        ErrorCode.NOT_LEADER_OR_FOLLOWER,\n        # A newer producer",
        "a marker is sent until every partition has it",
        "a leader moves while a transaction ends",
    ),
    PlantedBug(
        "end-answered-before-it-is-decided",
        _ROOM,
        "coordinator/transaction/transaction_coordinator.py",
        "        decision = transitions.end(entry.metadata, producer, commit, self._clock.time_ms())\n"
        "        await self._carry_out(partition, entry, decision)\n",
        "        decision = transitions.end(entry.metadata, producer, commit, self._clock.time_ms())\n"
        "        if decision.write is None:\n"
        "            await self._carry_out(partition, entry, decision)\n"
        "        else:\n"
        '            spawn(self._later(partition, entry, decision), "ending a transaction")\n\n'
        "    async def _later(\n"
        "        self, partition: StatePartition, entry: TransactionalIdEntry, decision: transitions.Transition\n"
        "    ) -> None:\n"
        "        try:\n"
        "            await self._carry_out(partition, entry, decision)\n"
        "        except ApiError as error:\n"
        '            log.info("not ended: %s", error)\n',
        "EndTxn is answered once the decision is durable",
        "a coordinator that dies or is cut off from ZooKeeper",
        (
            Edit(
                "coordinator/transaction/transaction_coordinator.py",
                "from kafkalite.common.types import TopicPartition\n",
                "from kafkalite.common.tasks import spawn\nfrom kafkalite.common.types import TopicPartition\n",
            ),
        ),
    ),
    PlantedBug(
        "zombies-are-not-fenced",
        _ROOM,
        "coordinator/transaction/transitions.py",
        "    if metadata.producer_epoch != producer.producer_epoch:\n        return ErrorCode.PRODUCER_FENCED\n"
        "    return ErrorCode.NONE\n",
        "    return ErrorCode.NONE\n",
        "two lines: coordinator and log refuse a producer that was fenced",
        "a transaction that timed out while its producer slept",
        (
            Edit(
                "log/producer_state.py",
                "            if checks:\n                entry.check_epoch(header)\n",
                "",
            ),
        ),
    ),
    PlantedBug(
        "epoch-is-not-raised",
        _ROOM,
        "coordinator/transaction/transitions.py",
        "        return _initialised(metadata, producer_id, epoch + 1, NO_PRODUCER_EPOCH, timeout_ms, now_ms)\n",
        "        return _initialised(metadata, producer_id, max(epoch, 0), NO_PRODUCER_EPOCH, timeout_ms, now_ms)\n",
        "a producer that asks for a producer id fences the one before it",
        "producers that start again",
    ),
    PlantedBug(
        "open-transactions-are-read",
        _ROOM,
        "log/producer_state.py",
        "        offsets = list(self._ongoing.values())\n"
        "        offsets.extend(txn.first_offset for txn in self._unreplicated)\n"
        "        return min(offsets)\n",
        "        return min((txn.first_offset for txn in self._unreplicated), default=-1)\n",
        "an open transaction holds the last stable offset back",
        "readers of committed records",
    ),
    PlantedBug(
        "followers-miss-aborts",
        _ROOM,
        "log/log.py",
        "            for header in headers:\n                if header.leader_epoch != self.epochs.latest_epoch:\n"
        "                    self.assign_epoch_start(header.leader_epoch, header.base_offset)\n"
        "        if staged is not None:\n            self._commit(staged)\n",
        "            for header in headers:\n                if header.leader_epoch != self.epochs.latest_epoch:\n"
        "                    self.assign_epoch_start(header.leader_epoch, header.base_offset)\n"
        "        if staged is not None:\n            self.producer_state.commit(staged)\n",
        "a follower keeps the index of aborted transactions",
        "a leader dies after aborts",
    ),
    PlantedBug(
        "recovery-misses-aborts",
        _ROOM,
        "log/recovery.py",
        "            if txn.aborted:\n                segment.add_aborted",
        "            if txn.aborted and not segment.exists:\n                segment.add_aborted",
        "recovery writes the index of aborted transactions anew",
        "kill -9 after aborts",
    ),
    PlantedBug(
        "aborts-of-one-segment",
        _ROOM,
        "log/log.py",
        "        for segment in self.segments.from_offset(start):\n            if segment.txn_index is None:\n"
        "                continue\n",
        "        for segment in self.segments.from_offset(start)[:1]:\n            if segment.txn_index is None:\n"
        "                continue\n",
        "aborted transactions are looked for in later segments, too",
        "transactions that span segments",
    ),
    PlantedBug(
        "offsets-of-aborted-transactions",
        _ROOM,
        "coordinator/transaction/transaction_completion.py",
        "        if metadata.state is TransactionState.PREPARE_COMMIT:\n            await gather(",
        "        if metadata.state in DECIDED:\n            await gather(",
        "staged offsets of an aborted transaction are dropped",
        "pipelines that abort",
    ),
    PlantedBug(
        "staged-offsets-are-lost",
        _ROOM,
        "coordinator/offsets/transactional_offsets.py",
        "            left = await self._copy(group, left, claim, decision_mzxid)\n",
        "            await self._copy(group, left, claim, decision_mzxid)\n            left = {}\n",
        "staged offsets are copied until all of them are the group's",
        "pipelines",
    ),
    PlantedBug(
        "decision-is-made-twice",
        _ROOM,
        "coordinator/transaction/transitions.py",
        "    if metadata.state is prepared:\n        return Transition(ErrorCode.CONCURRENT_TRANSACTIONS)\n",
        "    if metadata.state in DECIDED:\n        return Transition()\n",
        "two lines: a transaction that is decided one way is not confirmed the other way",
        "a transaction that timed out while its producer commits",
        (
            Edit(
                "coordinator/transaction/transitions.py",
                "    if metadata.producer_epoch != producer.producer_epoch:\n        return ErrorCode.PRODUCER_FENCED\n"
                "    return ErrorCode.NONE\n",
                "    return ErrorCode.NONE\n",
            ),
        ),
    ),
    PlantedBug(
        "transactions-do-not-time-out",
        _ROOM,
        "coordinator/transaction/transitions.py",
        "    return metadata.state is _S.ONGOING and not metadata.two_phase and metadata.start_ms + "
        "metadata.timeout_ms < now_ms\n",
        "    return False\n",
        "a transaction whose producer is gone is aborted",
        "producers that are killed",
    ),
    PlantedBug(
        "marker-acknowledged-by-the-leader",
        _ROOM,
        "apis/write_txn_markers.py",
        "append_records(timeout_ms, -1, entries, done.callback, from_client=False)",
        "append_records(timeout_ms, 1, entries, done.callback, from_client=False)",
        "a marker counts once all in-sync replicas have it",
        "a leader dies while transactions end",
    ),
    PlantedBug(
        "offsets-of-open-transactions",
        _ROOM,
        "coordinator/offsets/committed_offset_reader.py",
        "        if require_stable and tp in staged.undecided:\n",
        "        if require_stable and tp in staged.undecided and tp not in stored:\n",
        "who takes a partition over waits for the transaction that has staged its offset",
        "pipelines that are killed between commit and decision",
    ),
)
