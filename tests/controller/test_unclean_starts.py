"""Leaders after unclean starts of brokers that the controller, its successor, or no controller observed.

Broker 1 leads in the beginning. A broker that starts uncleanly may have lost the end of its log.
"""

from __future__ import annotations

import pytest

from kafkalite.zk.znodes import topics
from tests.support import run

from .fixtures import ControllerFixture, tp


def cluster(*replicas: int) -> ControllerFixture:
    """Brokers 1 to 3, a topic, and the controller on a broker of its own."""
    fixture = ControllerFixture().start(1, 2, 3)
    fixture.control(9)
    fixture.topic("t", {0: list(replicas or (1, 2, 3))})
    assert fixture.state("t-0").startswith("leader 1 epoch 0")
    return fixture


def suspend(fixture: ControllerFixture) -> None:
    fixture.controller_clients[9].lose_connection()


def resume(fixture: ControllerFixture) -> None:
    fixture.controller_clients[9].reconnect()


def stop_controller(fixture: ControllerFixture) -> None:
    """End the controller; the cluster has none until its successor is elected."""
    fixture.controller_clients.pop(9).close()


# trap: kafkalite/controller/elections.py: A leader that restarted unseen by any controller has a shortened log, and the
# followers would truncate to it.
@pytest.mark.parametrize("successor", [True, False])
def test_a_leader_that_restarted_unseen_does_not_lead_on(successor: bool) -> None:
    fixture = cluster()
    stop_controller(fixture) if successor else suspend(fixture)
    fixture.kill(1)
    fixture.start(1)
    fixture.control(8) if successor else resume(fixture)
    assert fixture.state("t-0") == f"leader 2 epoch 1 isr 2,3 by {2 if successor else 1}"


@pytest.mark.parametrize("successor", [True, False])
def test_a_follower_that_restarted_unseen_leaves_the_isr(successor: bool) -> None:
    fixture = cluster()
    stop_controller(fixture) if successor else suspend(fixture)
    fixture.kill(2)
    fixture.start(2)
    fixture.control(8) if successor else resume(fixture)
    assert fixture.state("t-0") == f"leader 1 epoch 1 isr 1,3 by {2 if successor else 1}"


@pytest.mark.parametrize("successor", [True, False])
def test_an_isr_change_does_not_hide_a_restart(successor: bool) -> None:
    """The leader takes another follower out, so that the state is younger than the registration of broker 2."""
    fixture = cluster()
    stop_controller(fixture) if successor else suspend(fixture)
    fixture.kill(2)
    fixture.start(2)
    fixture.leader_writes("t-0", [1, 2], notify=False)
    fixture.kill(1)
    fixture.control(8) if successor else resume(fixture)
    assert fixture.state("t-0") == f"leader -1 epoch 1 isr 1,2 by {2 if successor else 1}", "broker 2 may lack records"
    fixture.start_cleanly(1)
    assert fixture.state("t-0") == f"leader 1 epoch 2 isr 1 by {2 if successor else 1}"


@pytest.mark.parametrize("successor", [True, False])
def test_sessions_that_merely_expired_prove_no_restart(successor: bool) -> None:
    """Two followers have whole logs in new sessions, the leader lost power: only the followers count."""
    fixture = cluster()
    stop_controller(fixture) if successor else suspend(fixture)
    fixture.kill(1, 2, 3)
    fixture.start_cleanly(2, 3)
    fixture.start(1)
    fixture.control(8) if successor else resume(fixture)
    assert fixture.state("t-0") == f"leader 2 epoch 1 isr 2,3 by {2 if successor else 1}"


def test_a_leader_with_a_whole_log_leads_on_under_a_new_epoch() -> None:
    """It ceased to lead when its session ended: it must hear of its leadership again, and the others of the epoch."""
    fixture = cluster(1, 2)
    fixture.bounce(1, cleanly=True)
    assert fixture.state("t-0") == "leader 1 epoch 1 isr 1,2 by 1"
    stop_controller(fixture)
    fixture.kill(1)
    fixture.start_cleanly(1)
    fixture.control(8)
    assert fixture.state("t-0") == "leader 1 epoch 2 isr 1,2 by 2"


def test_a_follower_with_a_whole_log_stays() -> None:
    fixture = cluster(1, 2)
    fixture.take()
    fixture.bounce(2, cleanly=True)
    assert fixture.state("t-0") == "leader 1 epoch 0 isr 1,2 by 1"
    assert "2 <- lead/follow (1,2,3) t-0: 1/0 [1,2]" in fixture.take()


# trap: kafkalite/controller/broker_events.py: A restart is seen together with the death of the broker that has all
# records: one event tells the two brokers apart.
def test_restarted_and_dead_brokers_are_told_apart_in_one_event() -> None:
    """The leader is back without the end of its log, and the follower, which has all, was killed at the same time."""
    fixture = cluster(1, 2)
    with fixture.unseen(1, 2):
        fixture.kill(2)
        fixture.kill(1)
    fixture.start(1)
    assert fixture.state("t-0") == "leader -1 epoch 1 isr 1,2 by 1"
    fixture.start_cleanly(2)
    assert fixture.state("t-0") == "leader 2 epoch 2 isr 2 by 1"


def test_a_restarted_leader_leaves_while_a_live_follower_has_everything() -> None:
    fixture = cluster()
    with fixture.unseen(1, 3):
        fixture.kill(3)
        fixture.kill(1)
    fixture.start(1)
    assert fixture.state("t-0") == "leader 2 epoch 1 isr 2,3 by 1"


@pytest.mark.parametrize("successor", [True, False])
def test_the_only_replica_leads_again_after_an_unclean_start(successor: bool) -> None:
    fixture = cluster(1)
    if successor:
        stop_controller(fixture)
    fixture.kill(1)
    fixture.start(1)
    if successor:
        fixture.control(8)
    assert fixture.state("t-0").startswith(f"leader 1 epoch {1 if successor else 2} isr 1")


def test_the_last_member_of_the_isr_leads_again_though_others_live() -> None:
    fixture = cluster()
    fixture.kill(2, 3)
    fixture.leader_writes("t-0", [1])
    assert fixture.state("t-0") == "leader 1 epoch 1 isr 1 by 1"
    fixture.kill(1)
    fixture.start(2, 3)
    assert fixture.state("t-0") == "leader -1 epoch 2 isr 1 by 1"
    fixture.start(1)
    assert fixture.state("t-0") == "leader 1 epoch 3 isr 1 by 1"


@pytest.mark.parametrize("follower", [2, 3])
def test_the_last_that_is_registered_may_be_dead(follower: int) -> None:
    """Its machine lost power and its session goes on; a follower with a whole log was away for a moment."""
    fixture = cluster(1, 2, 3)
    fixture.leader_writes("t-0", [1, follower])
    fixture.kill(follower)
    assert fixture.state("t-0") == f"leader 1 epoch 0 isr 1,{follower} by 1", "the leader itself takes it out"
    fixture.bounce(1)
    fixture.start_cleanly(follower)
    assert fixture.state("t-0").startswith(f"leader {follower} ")


def test_all_replicas_restarted_uncleanly() -> None:
    """Once all of the ISR are back, and none surely has all records, one of them leads."""
    fixture = cluster(1, 2)
    stop_controller(fixture)
    fixture.kill(1, 2)
    fixture.start(1)
    fixture.control(8)
    assert fixture.state("t-0") == "leader -1 epoch 1 isr 1,2 by 2", "broker 2 may have all records"
    fixture.start(2)
    assert fixture.state("t-0") == "leader 1 epoch 2 isr 1 by 2"


def test_of_those_that_restarted_uncleanly_the_old_leader_leads() -> None:
    """It has at least as many records as the others."""
    fixture = cluster(1, 2)
    fixture.kill(1)
    fixture.start(1)
    fixture.leader_writes("t-0", [2, 1])
    assert fixture.state("t-0") == "leader 2 epoch 2 isr 2,1 by 1"
    stop_controller(fixture)
    fixture.kill(1, 2)
    fixture.start(1, 2)
    fixture.control(8)
    assert fixture.state("t-0") == "leader 2 epoch 3 isr 2 by 2"


def test_the_first_of_the_missing_that_has_everything_leads() -> None:
    fixture = cluster()
    stop_controller(fixture)
    fixture.kill(1, 2, 3)
    fixture.start(1)
    fixture.control(8)
    assert fixture.state("t-0") == "leader -1 epoch 1 isr 1,2,3 by 2"
    fixture.start(2)
    assert fixture.state("t-0").startswith("leader -1"), "broker 3 may have all records"
    fixture.start_cleanly(3)
    assert fixture.state("t-0") == "leader 3 epoch 2 isr 3 by 2"


def test_a_member_that_may_lack_records_is_elected_by_no_api_but_an_unclean_election() -> None:
    fixture = cluster(1, 2, 3)
    fixture.kill(3)
    stop_controller(fixture)
    fixture.kill(1, 2)
    fixture.start(1, 3)
    controller = fixture.control(8)
    waiting = "leader -1 epoch 2 isr 1,2 by 2"
    assert fixture.state("t-0") == waiting
    run(controller.elect_leaders("preferred", [tp("t-0")]))
    assert fixture.state("t-0") == waiting
    run(controller.alter_reassignments({tp("t-0"): [1, 3]}))
    assert fixture.state("t-0").startswith("leader -1") and "isr 1,2" in fixture.state("t-0"), "broker 2 would be lost"
    run(controller.elect_leaders("unclean", [tp("t-0")]))
    assert fixture.state("t-0").startswith("leader 1 epoch") and fixture.state("t-0").endswith("isr 1 by 2")


def test_a_replica_that_caught_up_again_counts_in_its_new_life() -> None:
    fixture = cluster(1, 2)
    fixture.bounce(2)
    assert fixture.state("t-0") == "leader 1 epoch 1 isr 1 by 1"
    fixture.leader_writes("t-0", [1, 2])
    stop_controller(fixture)
    fixture.kill(1)
    fixture.control(8)
    assert fixture.state("t-0") == "leader 2 epoch 2 isr 1,2 by 2"


def test_a_replica_that_restarted_as_it_joined_is_taken_out() -> None:
    fixture = cluster(1, 2)
    fixture.bounce(2)
    before = dict(fixture.unclean_start_epochs)
    fixture.bounce(2)
    fixture.unclean_start_epochs = before
    fixture.leader_writes("t-0", [1, 2])
    assert fixture.state("t-0") == "leader 1 epoch 2 isr 1 by 1"


def test_a_state_that_kafka_wrote_is_judged_by_its_age() -> None:
    """It does not say under which unclean start its members were in sync: a start after it was written counts."""
    fixture = cluster(1, 2)
    stop_controller(fixture)
    state = fixture.read("t-0")
    assert state is not None and state.unclean_start_epochs
    run(fixture.client.set(topics.state_path(tp("t-0")), topics.encode_state(state.with_(unclean_start_epochs=()))))
    fixture.control(8)
    assert fixture.state("t-0") == "leader 1 epoch 0 isr 1,2 by 1", "nothing happened"
    fixture.bounce(2)
    assert fixture.state("t-0") == "leader 1 epoch 1 isr 1 by 2"
    recorded = fixture.read("t-0")
    assert recorded is not None and recorded.unclean_start_epochs == ((1, fixture.unclean_start_epochs[1]),)
