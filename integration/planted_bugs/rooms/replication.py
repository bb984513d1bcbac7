"""Planted bugs of replication: high watermark, ISR, truncation, fetching."""

from __future__ import annotations

from typing import Final

from integration.planted_bugs.bug import Edit, PlantedBug

_ROOM: Final = "replication"

BUGS: Final = (
    PlantedBug(
        "shrink-counts-at-once",
        _ROOM,
        "replication/isr.py",
        "PENDING_SHRINK, rest, self.committed)",
        "PENDING_SHRINK, rest, rest)",
        "an ISR shrink that ZooKeeper has not acknowledged moves no high watermark",
        "a laggard, an ISR write with an unknown outcome, the others die",
    ),
    PlantedBug(
        "lone-leader-does-not-sync",
        _ROOM,
        "replication/isr_updates.py",
        "pending.status is IsrStatus.PENDING_SHRINK and len(pending.proposed) == 1",
        "pending.status is IsrStatus.PENDING_SHRINK and len(pending.proposed) == 0",
        "a leader that takes the last follower out of the ISR has synced its log",
        "all followers are gone, or lag",
    ),
    PlantedBug(
        "min-insync-of-the-maximal-isr",
        _ROOM,
        "replication/isr.py",
        "return min(len(self.committed), len(self.proposed))",
        "return len(self.maximal)",
        "`min.insync.replicas` counts members that ZooKeeper surely has, not those being added or removed",
        "all followers are gone, and one of them comes back",
    ),
    PlantedBug(
        "leader-alone-acknowledges",
        _ROOM,
        "replication/replica_manager.py",
        "if required_acks == -1 and info.last_offset >= partition.log.high_watermark:",
        "if required_acks == -1 and info.last_offset < partition.log.high_watermark:",
        "acks=all waits for all in-sync replicas",
        "a leader dies",
    ),
    PlantedBug(
        "high-watermark-of-a-quorum",
        _ROOM,
        "replication/partition.py",
        "        end: int = log.log_end_offset\n"
        "        for follower in self.high_watermark_followers:\n"
        "            end = min(end, follower.log_end_offset)\n",
        "        ends = [log.log_end_offset, *(each.log_end_offset for each in self.high_watermark_followers)]\n"
        "        end: int = sorted(ends, reverse=True)[min(len(ends), self.min_in_sync) - 1]\n",
        "the high watermark waits for every in-sync replica, not for `min.insync.replicas` of them",
        "a leader dies, the slower follower leads",
    ),
    PlantedBug(
        "high-watermark-by-committed-isr",
        _ROOM,
        "replication/partition.py",
        "if replica in self.isr.maximal or replica in self.joining",
        "if replica in self.isr.committed",
        "two lines: a replica counts while its joining is written, and before that, once it has caught up",
        "ISR changes, then a leader dies",
        (Edit("replication/isr.py", "PENDING_EXPAND, wider, wider)", "PENDING_EXPAND, wider, self.committed)"),),
    ),
    PlantedBug(
        "truncation-to-high-watermark",
        _ROOM,
        "replication/replica_fetcher.py",
        "        tp = partition.topic_partition\n        fetch = PartitionFetch(partition)\n",
        "        tp = partition.topic_partition\n        partition.log.truncate_to(partition.log.high_watermark)\n"
        "        fetch = PartitionFetch(partition)\n",
        "a follower truncates by leader epoch (KIP-101)",
        "two elections in a row",
    ),
    PlantedBug(
        "divergence-is-not-told",
        _ROOM,
        "replication/fetch_reader.py",
        "            if diverging is not None:\n                result = _result",
        "            if diverging is not None and offset > end:\n                result = _result",
        "the leader tells a follower where their logs part (KIP-595)",
        "an unacknowledged tail, then an election",
    ),
    PlantedBug(
        "fetch-of-an-earlier-life",
        _ROOM,
        "replication/fetch_reader.py",
        "        if params.replica_epoch != follower.broker_epoch:\n"
        "            if params.replica_epoch < follower.broker_epoch:\n"
        '                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a fetch of the broker\'s earlier life")\n'
        "            follower.broker_epoch = params.replica_epoch\n",
        "",
        "two lines: fetches of a broker's earlier life do not count, nor may they bring it into the ISR (KIP-903)",
        "a follower loses power with a fetch under way",
        (
            Edit(
                "replication/isr_updates.py",
                "if broker is None or follower.broker_epoch not in (-1, broker.epoch):",
                "if broker is None:",
            ),
        ),
    ),
    PlantedBug(
        "joins-below-the-epochs-start",
        _ROOM,
        "replication/partition.py",
        "return offset >= self.log.high_watermark and offset >= self.epoch_start_offset >= 0",
        "return offset >= self.log.high_watermark",
        "a follower joins the ISR once it has what the leader had when its epoch began (KAFKA-7128)",
        "elections while a follower is behind",
    ),
    PlantedBug(
        "older-states-are-taken",
        _ROOM,
        "replication/role_applier.py",
        "        if state.order > known.order:\n            return True\n        if state.order < known.order:\n",
        "        if state.order > known.order or from_controller:\n            return True\n"
        "        if state.order < known.order:\n",
        "two lines: a LeaderAndIsrRequest of a former controller, or of an older leader epoch, is refused",
        "requests of the controller that arrive late",
        (
            Edit(
                "replication/broker_epoch.py",
                "        if controller_epoch < self.controller_epoch:\n"
                "            return ErrorCode.STALE_CONTROLLER_EPOCH\n",
                "",
            ),
        ),
    ),
    PlantedBug(
        "failed-isr-write-is-taken-back",
        _ROOM,
        "replication/isr_updates.py",
        '            log.info("%s: outcome of an ISR change unknown: %s", partition.topic_partition, error)\n'
        "            self._replicas.isr_stats.failed_updates += 1\n"
        "            await self._settle(partition, pending)\n",
        '            log.info("%s: outcome of an ISR change unknown: %s", partition.topic_partition, error)\n'
        "            self._replicas.isr_stats.failed_updates += 1\n"
        "            partition.set_isr(committed(pending.committed, pending.zk_version))\n",
        "an ISR write with an unknown outcome counts as made and as not made",
        "ZooKeeper's answers are swallowed while an ISR grows",
        (
            Edit(
                "replication/isr_updates.py",
                "from kafkalite.replication.isr import IsrState, IsrStatus\n",
                "from kafkalite.replication.isr import IsrState, IsrStatus, committed\n",
            ),
        ),
    ),
    PlantedBug(
        "quiet-partition-learns-no-high-watermark",
        _ROOM,
        "apis/fetch_sessions.py",
        "        elif partition.fetch_offset <= known.fetch_offset:\n            session.last_sent.pop(tp, None)\n",
        "",
        "a high watermark that the follower could not use is told once more",
        "truncations in quiet partitions",
    ),
    PlantedBug(
        "reads-above-the-high-watermark",
        _ROOM,
        "replication/fetch_reader.py",
        "upper = replica_log.last_stable_offset if params.isolation else replica_log.high_watermark",
        "upper = replica_log.last_stable_offset if params.isolation else end",
        "consumers read what is committed only",
        "a leader dies with a tail that a consumer has read",
    ),
    PlantedBug(
        "laggard-stays-in-the-isr",
        _ROOM,
        "replication/partition.py",
        "            and now - follower.last_caught_up > max_lag\n        )\n",
        "            and now - follower.last_caught_up > max_lag\n        )\n"
        "        return out if len(self.isr.committed) - len(out) >= self.min_in_sync else frozenset()\n",
        "followers that do not fetch leave the ISR, also below `min.insync.replicas`: else the partition stands still",
        "followers that are cut off for long",
        (
            Edit(
                "replication/partition.py",
                "        end = self.log.log_end_offset\n        return frozenset(\n",
                "        end = self.log.log_end_offset\n        out = frozenset(\n",
            ),
        ),
    ),
)
