"""Planted bugs of the controller: elections, fencing, deletion, reassignment."""

from __future__ import annotations

from typing import Final

from integration.planted_bugs.bug import Edit, PlantedBug

_ROOM: Final = "controller"

BUGS: Final = (
    PlantedBug(
        "unclean-election",
        _ROOM,
        "controller/elections.py",
        "    elected = offline_leader(state.replicas, complete, online, False)\n",
        "    elected = offline_leader(state.replicas, complete, online, True)\n",
        "only a member of the ISR is elected",
        "a laggard, the others die",
    ),
    PlantedBug(
        "bounce-is-not-noticed",
        _ROOM,
        "controller/broker_events.py",
        "bounced = {i for i, broker in live.items() if i in known and broker.epoch != known[i].epoch}",
        "bounced: set[int] = set()",
        "a broker that was away between two looks counts as failed",
        "quick reboots",
    ),
    PlantedBug(
        "lost-records-are-not-suspected",
        _ROOM,
        "controller/elections.py",
        "    return 0 <= state.mzxid < started if recorded is None else started != recorded\n",
        "    return False\n",
        "a member of the ISR whose machine lost power is not taken to have all records",
        "lost power of a machine that is back at once",
    ),
    PlantedBug(
        "bounced-leader-stays",
        _ROOM,
        "controller/elections.py",
        "        kept = [r for r in held if r in complete and brokers.is_reachable(r, tp)]\n",
        "        kept = [r for r in held if brokers.is_reachable(r, tp)]\n",
        "a leader that may lack records leads on only where no other replica has them",
        "a leader loses power and is back at once",
    ),
    PlantedBug(
        "start-epochs-are-not-recorded",
        _ROOM,
        "controller/elections.py",
        "        unclean_start_epochs=_record(state, leader, isr, brokers),\n",
        "",
        "two lines: the states say in which life of its log each member was in sync, by controller and by leader",
        "restarts that no controller saw",
        (
            Edit(
                "replication/isr_updates.py",
                "        return tuple((replica, epochs[replica]) for replica in pending.proposed if "
                "epochs.get(replica, -1) >= 0)\n",
                "        return ()\n",
            ),
        ),
    ),
    PlantedBug(
        "controller-is-not-fenced",
        _ROOM,
        "zk/stores/claims.py",
        "    fence = claim.fence()\n",
        "    fence = claim.fence() if claim.base else WriteFence(None, client.session)\n",
        "two lines: a former controller writes nothing, by its epoch and by its session",
        "a controller sleeps through an election",
    ),
    PlantedBug(
        "states-are-written-over",
        _ROOM,
        "zk/stores/controller.py",
        "topics.encode_state(state), state.zk_version)\n",
        "topics.encode_state(state))\n",
        "the controller writes a state against the version that it has read",
        "ISR changes during elections",
    ),
    PlantedBug(
        "controller-claims-no-epoch",
        _ROOM,
        "zk/stores/claims.py",
        "claims.encode_epoch(epoch + 1), version),",
        "claims.encode_epoch(epoch + bool(base)), version),",
        "each controller has an epoch of its own",
        "a second controller",
    ),
    PlantedBug(
        "renewed-leader-keeps-its-epoch",
        _ROOM,
        "controller/elections.py",
        "        is_renewed = leader in registered_anew or 0 <= state.mzxid < brokers.broker_epoch(leader)\n",
        "        is_renewed = False\n",
        "a leader that registered anew gets a new leader epoch",
        "an expired session whose broker is back before the controller looks",
    ),
    PlantedBug(
        "shutdown-leaves-one-member",
        _ROOM,
        "controller/elections.py",
        "        isr = _not_left_alone(state, isr, brokers)\n        if state.leader not in shutting_down:\n",
        "        if state.leader not in shutting_down:\n",
        "a controlled shutdown does not leave the ISR a single member, whose machine may have lost power unnoticed",
        "of an ISR of two one machine loses power, the other broker stops",
    ),
    PlantedBug(
        "reassignment-completes-early",
        _ROOM,
        "controller/elections.py",
        "    return set(target) <= set(state.isr)\n",
        "    return bool(set(target) & set(state.isr))\n",
        "a reassignment completes when its whole target is in sync",
        "reassignments",
    ),
    PlantedBug(
        "deletion-does-not-wait",
        _ROOM,
        "controller/topic_deletion.py",
        "            if states <= {ReplicaState.DELETION_SUCCESSFUL}:\n",
        "            if states <= {ReplicaState.DELETION_SUCCESSFUL, ReplicaState.DELETION_INELIGIBLE}:\n",
        "two lines: a topic goes when every replica has deleted its log, and its files are told from a new topic's",
        "a topic is deleted while a broker is down, and made again",
        (
            Edit(
                "replication/role_applier.py",
                "            if stored is not None and differs(stored.topic_id, state.topic_id):\n",
                "            if False and stored is not None:\n",
            ),
            Edit(
                "log/log_manager.py",
                "        if topic_id is not None:\n            found.set_topic_id(topic_id)\n        return found\n",
                "        found.topic_id = topic_id\n        return found\n",
            ),
        ),
    ),
)
