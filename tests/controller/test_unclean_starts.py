"""Who leads after brokers started uncleanly: seen by the controller, by its successor, or by none.

Broker 1 leads in the beginning. A broker that starts uncleanly may have lost the end of its log.
"""

from __future__ import annotations

import pytest

from kafkalite.zk.znodes import topics

from .harness import House, run, tp


def cluster(*replicas: int) -> House:
    """Brokers 1 to 3, a topic, and the controller on a broker of its own."""
    house = House().start(1, 2, 3)
    house.control(9)
    house.topic("t", {0: list(replicas or (1, 2, 3))})
    assert house.state("t-0").startswith("leader 1 epoch 0")
    return house


def suspend(house: House) -> None:
    house.controller_clients[9].lose_connection()


def resume(house: House) -> None:
    house.controller_clients[9].reconnect()


def nobody_watches(house: House) -> None:
    """The controller is gone; its successor comes later."""
    house.controller_clients.pop(9).close()


# trap: kafkalite/controller/elections.py: A leader that restarted unseen by any controller has a shortened log, and the
# followers would truncate to it.
@pytest.mark.parametrize("successor", [True, False])
def test_a_leader_that_restarted_unseen_does_not_lead_on(successor: bool) -> None:
    house = cluster()
    nobody_watches(house) if successor else suspend(house)
    house.kill(1)
    house.start(1)
    house.control(8) if successor else resume(house)
    assert house.state("t-0") == f"leader 2 epoch 1 isr 2,3 by {2 if successor else 1}"


@pytest.mark.parametrize("successor", [True, False])
def test_a_follower_that_restarted_unseen_leaves_the_isr(successor: bool) -> None:
    house = cluster()
    nobody_watches(house) if successor else suspend(house)
    house.kill(2)
    house.start(2)
    house.control(8) if successor else resume(house)
    assert house.state("t-0") == f"leader 1 epoch 1 isr 1,3 by {2 if successor else 1}"


@pytest.mark.parametrize("successor", [True, False])
def test_an_isr_change_does_not_hide_a_restart(successor: bool) -> None:
    """The leader takes another follower out, so that the state is younger than the registration of broker 2."""
    house = cluster()
    nobody_watches(house) if successor else suspend(house)
    house.kill(2)
    house.start(2)
    house.leader_writes("t-0", [1, 2], notify=False)
    house.kill(1)
    house.control(8) if successor else resume(house)
    assert house.state("t-0") == f"leader -1 epoch 1 isr 1,2 by {2 if successor else 1}", "broker 2 may lack records"
    house.start_cleanly(1)
    assert house.state("t-0") == f"leader 1 epoch 2 isr 1 by {2 if successor else 1}"


@pytest.mark.parametrize("successor", [True, False])
def test_sessions_that_merely_expired_prove_no_restart(successor: bool) -> None:
    """Two followers have whole logs in new sessions, the leader lost power: only the followers count."""
    house = cluster()
    nobody_watches(house) if successor else suspend(house)
    house.kill(1, 2, 3)
    house.start_cleanly(2, 3)
    house.start(1)
    house.control(8) if successor else resume(house)
    assert house.state("t-0") == f"leader 2 epoch 1 isr 2,3 by {2 if successor else 1}"


def test_a_leader_with_a_whole_log_leads_on_under_a_new_epoch() -> None:
    """It ceased to lead when its session ended: it must hear of its leadership again, and the others of the epoch."""
    house = cluster(1, 2)
    house.bounce(1, cleanly=True)
    assert house.state("t-0") == "leader 1 epoch 1 isr 1,2 by 1"
    nobody_watches(house)
    house.kill(1)
    house.start_cleanly(1)
    house.control(8)
    assert house.state("t-0") == "leader 1 epoch 2 isr 1,2 by 2"


def test_a_follower_with_a_whole_log_stays() -> None:
    house = cluster(1, 2)
    house.take()
    house.bounce(2, cleanly=True)
    assert house.state("t-0") == "leader 1 epoch 0 isr 1,2 by 1"
    assert "2 <- lead/follow (1,2,3) t-0: 1/0 [1,2]" in house.take()


# trap: kafkalite/controller/broker_events.py: A restart is seen together with the death of the broker that has all
# records: one event tells the two brokers apart.
def test_restarted_and_dead_brokers_are_told_apart_in_one_event() -> None:
    """The leader is back without the end of its log, and the follower, which has all, was killed at the same time."""
    house = cluster(1, 2)
    with house.unseen(1, 2):
        house.kill(2)
        house.kill(1)
    house.start(1)
    assert house.state("t-0") == "leader -1 epoch 1 isr 1,2 by 1"
    house.start_cleanly(2)
    assert house.state("t-0") == "leader 2 epoch 2 isr 2 by 1"


def test_a_restarted_leader_leaves_while_a_live_follower_has_everything() -> None:
    house = cluster()
    with house.unseen(1, 3):
        house.kill(3)
        house.kill(1)
    house.start(1)
    assert house.state("t-0") == "leader 2 epoch 1 isr 2,3 by 1"


@pytest.mark.parametrize("successor", [True, False])
def test_the_only_replica_leads_again_after_an_unclean_start(successor: bool) -> None:
    house = cluster(1)
    if successor:
        nobody_watches(house)
    house.kill(1)
    house.start(1)
    if successor:
        house.control(8)
    assert house.state("t-0").startswith(f"leader 1 epoch {1 if successor else 2} isr 1")


def test_the_last_member_of_the_isr_leads_again_though_others_live() -> None:
    house = cluster()
    house.kill(2, 3)
    house.leader_writes("t-0", [1])
    assert house.state("t-0") == "leader 1 epoch 1 isr 1 by 1"
    house.kill(1)
    house.start(2, 3)
    assert house.state("t-0") == "leader -1 epoch 2 isr 1 by 1"
    house.start(1)
    assert house.state("t-0") == "leader 1 epoch 3 isr 1 by 1"


@pytest.mark.parametrize("follower", [2, 3])
def test_the_last_that_is_registered_may_be_dead(follower: int) -> None:
    """Its machine lost power and its session goes on; a follower with a whole log was away for a moment."""
    house = cluster(1, 2, 3)
    house.leader_writes("t-0", [1, follower])
    house.kill(follower)
    assert house.state("t-0") == f"leader 1 epoch 0 isr 1,{follower} by 1", "the leader itself takes it out"
    house.bounce(1)
    house.start_cleanly(follower)
    assert house.state("t-0").startswith(f"leader {follower} ")


def test_all_replicas_restarted_uncleanly() -> None:
    """Once all of the ISR are back, and none surely has all records, one of them leads."""
    house = cluster(1, 2)
    nobody_watches(house)
    house.kill(1, 2)
    house.start(1)
    house.control(8)
    assert house.state("t-0") == "leader -1 epoch 1 isr 1,2 by 2", "broker 2 may have all records"
    house.start(2)
    assert house.state("t-0") == "leader 1 epoch 2 isr 1 by 2"


def test_of_those_that_restarted_uncleanly_the_old_leader_leads() -> None:
    """It has at least as many records as the others."""
    house = cluster(1, 2)
    house.kill(1)
    house.start(1)
    house.leader_writes("t-0", [2, 1])
    assert house.state("t-0") == "leader 2 epoch 2 isr 2,1 by 1"
    nobody_watches(house)
    house.kill(1, 2)
    house.start(1, 2)
    house.control(8)
    assert house.state("t-0") == "leader 2 epoch 3 isr 2 by 2"


def test_the_first_of_the_missing_that_has_everything_leads() -> None:
    house = cluster()
    nobody_watches(house)
    house.kill(1, 2, 3)
    house.start(1)
    house.control(8)
    assert house.state("t-0") == "leader -1 epoch 1 isr 1,2,3 by 2"
    house.start(2)
    assert house.state("t-0").startswith("leader -1"), "broker 3 may have all records"
    house.start_cleanly(3)
    assert house.state("t-0") == "leader 3 epoch 2 isr 3 by 2"


def test_a_member_that_may_lack_records_is_elected_by_no_api_but_an_unclean_election() -> None:
    house = cluster(1, 2, 3)
    house.kill(3)
    nobody_watches(house)
    house.kill(1, 2)
    house.start(1, 3)
    controller = house.control(8)
    waiting = "leader -1 epoch 2 isr 1,2 by 2"
    assert house.state("t-0") == waiting
    run(controller.elect_leaders("preferred", [tp("t-0")]))
    assert house.state("t-0") == waiting
    run(controller.alter_reassignments({tp("t-0"): [1, 3]}))
    assert house.state("t-0").startswith("leader -1") and "isr 1,2" in house.state("t-0"), "broker 2 would be lost"
    run(controller.elect_leaders("unclean", [tp("t-0")]))
    assert house.state("t-0").startswith("leader 1 epoch") and house.state("t-0").endswith("isr 1 by 2")


def test_a_replica_that_caught_up_again_counts_in_its_new_life() -> None:
    house = cluster(1, 2)
    house.bounce(2)
    assert house.state("t-0") == "leader 1 epoch 1 isr 1 by 1"
    house.leader_writes("t-0", [1, 2])
    nobody_watches(house)
    house.kill(1)
    house.control(8)
    assert house.state("t-0") == "leader 2 epoch 2 isr 1,2 by 2"


def test_a_replica_that_restarted_as_it_joined_is_taken_out() -> None:
    house = cluster(1, 2)
    house.bounce(2)
    before = dict(house.unclean_start_epochs)
    house.bounce(2)
    house.unclean_start_epochs = before
    house.leader_writes("t-0", [1, 2])
    assert house.state("t-0") == "leader 1 epoch 2 isr 1 by 1"


def test_a_state_that_kafka_wrote_is_judged_by_its_age() -> None:
    """It does not say under which unclean start its members were in sync: a start after it was written counts."""
    house = cluster(1, 2)
    nobody_watches(house)
    state = house.read("t-0")
    assert state is not None and state.unclean_start_epochs
    run(house.client.set(topics.state_path(tp("t-0")), topics.encode_state(state.with_(unclean_start_epochs=()))))
    house.control(8)
    assert house.state("t-0") == "leader 1 epoch 0 isr 1,2 by 1", "nothing happened"
    house.bounce(2)
    assert house.state("t-0") == "leader 1 epoch 1 isr 1 by 2"
    recorded = house.read("t-0")
    assert recorded is not None and recorded.unclean_start_epochs == ((1, house.unclean_start_epochs[1]),)
