"""Election, failover and the life of brokers and topics, as transcripts."""

from __future__ import annotations

import logging
import uuid
from textwrap import dedent

import pytest

from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.model import Broker, Endpoint, PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import ZERO_UUID
from kafkalite.controller.active_controller import ControllerConfig
from kafkalite.zk.stores.paths import ensure
from kafkalite.zk.stores.topics import IsrStore, TopicStore
from kafkalite.zk.zk_client import Check, Create, Delete, MultiError, SetData, Watch
from kafkalite.zk.znodes import topics as topic_znodes
from kafkalite.zk.znodes.brokers import encode_broker
from kafkalite.zk.znodes.claims import CONTROLLER_CLAIM
from kafkalite.zk.znodes.topics import TopicAssignment
from tests.support import run

from .fixtures import ControllerFixture, tp


def text(expected: str) -> str:
    return dedent(expected).strip()


def test_a_topic_is_created() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    fixture.control(1)
    fixture.take()
    fixture.topic("t", {0: [1, 2], 1: [2, 3]})
    assert fixture.take() == text("""
        1 <- lead/follow (1,2,3) t-0: 1/0 [1,2]
        1 <- metadata (1,2,3) t-0: 1/0 [1,2]; t-1: 2/0 [2,3]
        2 <- lead/follow (1,2,3) t-0: 1/0 [1,2]; t-1: 2/0 [2,3]
        2 <- metadata (1,2,3) t-0: 1/0 [1,2]; t-1: 2/0 [2,3]
        3 <- lead/follow (1,2,3) t-1: 2/0 [2,3]
        3 <- metadata (1,2,3) t-0: 1/0 [1,2]; t-1: 2/0 [2,3]
    """)
    assert fixture.state("t-0") == "leader 1 epoch 0 isr 1,2 by 1"


def test_a_broker_fails_and_returns() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    fixture.control(2)
    fixture.topic("t", {0: [1, 2, 3], 1: [2, 1], 2: [1]})
    fixture.take()
    fixture.kill(1)
    assert fixture.take() == text("""
        2 <- lead/follow (2,3) t-0: 2/1 [2,3]
        2 <- metadata (2,3) t-0: 2/1 [2,3]; t-2: -1/1 [1]
        3 <- lead/follow (2,3) t-0: 2/1 [2,3]
        3 <- metadata (2,3) t-0: 2/1 [2,3]; t-2: -1/1 [1]
    """)
    fixture.start(1)
    assert fixture.take() == text(
        """
        1 <- lead/follow (1,2,3) t-0: 2/1 [2,3]; t-1: 2/1 [2]; t-2: 1/2 [1]
        1 <- metadata (1,2,3) t-0: 2/1 [2,3]; t-1: 2/1 [2]; t-2: 1/2 [1]
        2 <- lead/follow (1,2,3) t-1: 2/1 [2]
        2 <- metadata (1,2,3) t-1: 2/1 [2]; t-2: 1/2 [1]
        3 <- metadata (1,2,3) t-1: 2/1 [2]; t-2: 1/2 [1]
    """
    )


# trap: kafkalite/controller/broker_events.py: A restart can be too quick to be seen as two events: a changed czxid
# counts as a failure and a start.
def test_a_quick_restart_is_a_failure_and_a_start() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(2)
    fixture.topic("t", {0: [1, 2]})
    fixture.take()
    fixture.bounce(1)
    assert fixture.take() == text("""
        1 <- lead/follow (1,2) t-0: 2/1 [2]
        1 <- metadata (1,2) t-0: 2/1 [2]
        2 <- lead/follow (1,2) t-0: 2/1 [2]
        2 <- metadata (1,2) t-0: 2/1 [2]
    """)


def test_only_one_is_active_and_another_takes_over() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    first, second = fixture.control(1), fixture.control(2)
    assert (first.is_active, second.is_active) == (True, False)
    assert fixture.active == {1: 1, 2: 1}
    fixture.topic("t", {0: [1, 2, 3]})
    fixture.kill(1)
    fixture.take()
    fixture.controller_clients[1].close()
    assert second.is_active
    assert second.epoch == 2
    assert fixture.active[2] == 2
    assert fixture.take() == text("""
        2 <- lead/follow (2,3) t-0: 2/1 [2,3]
        2 <- metadata (2,3) t-0: 2/1 [2,3]
        3 <- lead/follow (2,3) t-0: 2/1 [2,3]
        3 <- metadata (2,3) t-0: 2/1 [2,3]
    """)


# trap: kafkalite/controller/active_controller.py: A broker that becomes controller again believes its old caches: it
# reads everything after the claim.
def test_a_controller_that_comes_back_remembers_nothing_of_its_former_term() -> None:
    """Between its two claims another decided: what it knew is thrown away and read again, after the claim."""
    fixture = ControllerFixture().start(1, 2, 3)
    first = fixture.control(1)
    fixture.control(2)
    fixture.topic("old", {0: [1, 2]})
    fixture.topic("t", {0: [1, 2, 3]})
    client = fixture.controller_clients[1]
    client.lose_connection()
    client.expire_session()
    assert fixture.active[2] == 2
    run(fixture.admin.create_delete_topic("old"))
    fixture.kill(3)
    fixture.topic("new", {0: [2, 1]})
    fixture.controller_clients[2].close()
    fixture.take()
    client.reconnect()
    assert fixture.active[1] == 1 and first.epoch == 3
    assert fixture.take() == text("""
        1 <- lead/follow (1,2) new-0: 2/0 [2,1]; t-0: 1/1 [1,2]
        1 <- metadata (1,2) new-0: 2/0 [2,1]; t-0: 1/1 [1,2]
        2 <- lead/follow (1,2) new-0: 2/0 [2,1]; t-0: 1/1 [1,2]
        2 <- metadata (1,2) new-0: 2/0 [2,1]; t-0: 1/1 [1,2]
    """)


def test_leader_and_controller_die_together() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    fixture.control(1)
    second = fixture.control(2)
    fixture.topic("t", {0: [1, 2, 3]})
    fixture.take()
    fixture.controller_clients[1].close()
    fixture.kill(1)
    assert second.is_active
    assert fixture.state("t-0") == "leader 2 epoch 1 isr 2,3 by 2"


def test_our_sessions_end_is_our_terms_end() -> None:
    fixture = ControllerFixture().start(1, 2)
    first, second = fixture.control(1), fixture.control(2)
    client = fixture.controller_clients[1]
    client.lose_connection()
    fixture.zk.expire(client.session)
    assert (first.is_active, second.is_active) == (True, True), "it cannot know yet; its writes are refused"
    client.reconnect()
    assert (first.is_active, second.is_active) == (False, True)
    assert fixture.active == {1: 2, 2: 2}
    fixture.topic("t", {0: [1, 2]})
    assert fixture.state("t-0").endswith("by 2")


def test_a_lone_controller_is_elected_again_in_its_new_session() -> None:
    fixture = ControllerFixture().start(1)
    controller = fixture.control(1)
    fixture.controller_clients[1].expire_session()
    assert controller.is_active
    assert controller.epoch == 2


def test_a_stale_controller_writes_nothing_and_resigns() -> None:
    fixture = ControllerFixture().start(1, 2)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    # Another broker became controller, and this one has not seen the event.
    epoch, stat = run(fixture.client.get("/controller_epoch"))
    run(fixture.client.set("/controller_epoch", b"%d" % (int(epoch) + 1), stat.version))
    fixture.take()
    fixture.kill(1)
    # The write was refused; the claim is ours still, so the next election is, with a greater epoch.
    assert "by 1" not in fixture.state("t-0")
    assert controller.epoch != 1 or not controller.is_active


def test_a_removed_claim_leads_to_an_election() -> None:
    fixture = ControllerFixture().start(1)
    controller = fixture.control(1)
    run(fixture.client.delete("/controller"))
    assert controller.is_active
    assert controller.epoch == 2


def test_a_lost_connection_starts_the_term_again() -> None:
    fixture = ControllerFixture().start(1, 2)
    controller = fixture.control(1)
    client = fixture.controller_clients[1]
    client.lose_connection()
    fixture.topic("t", {0: [2, 1]})
    assert fixture.state("t-0") == "none"
    client.reconnect()
    assert controller.epoch == 1
    assert fixture.state("t-0") == "leader 2 epoch 0 isr 2,1 by 1"
    fixture.take()
    fixture.topic("u", {0: [1]})
    assert fixture.state("u-0") == "leader 1 epoch 0 isr 1 by 1"


def test_an_isr_that_the_leader_changed_unheard_is_read_again() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    fixture.control(2)
    fixture.topic("t", {0: [1, 2, 3], 1: [1, 2, 3]})
    fixture.leader_writes("t-0", [1, 3], notify=False)
    fixture.kill(1)
    assert fixture.state("t-0") == "leader 3 epoch 1 isr 1,3 by 1"
    assert fixture.state("t-1") == "leader 2 epoch 1 isr 2,3 by 1"


def test_isr_changes_are_passed_on_and_removed() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    fixture.take()
    fixture.leader_writes("t-0", [1])
    assert fixture.take() == "1 <- metadata (1,2) t-0: 1/0 [1]\n2 <- metadata (1,2) t-0: 1/0 [1]"
    assert fixture.zk.paths("/isr_change_notification/") == []


@pytest.mark.parametrize(
    ("broker_default", "override", "expected"),
    [
        (False, None, "leader -1 epoch 2 isr 1 by 1"),
        (True, None, "leader 2 epoch 3 isr 2 by 1"),
        (False, "true", "leader 2 epoch 3 isr 2 by 1"),
        (True, "false", "leader -1 epoch 2 isr 1 by 1"),
    ],
)
def test_unclean_only_where_configured(broker_default: bool, override: str | None, expected: str) -> None:
    fixture = ControllerFixture(ControllerConfig(unclean_leader_election=broker_default, auto_leader_rebalance=False))
    fixture.start(1, 2, 3).control(3)
    fixture.topic("t", {0: [1, 2]}, {} if override is None else {"unclean.leader.election.enable": override})
    fixture.kill(2)
    fixture.start(2)
    fixture.kill(1)
    assert fixture.state("t-0") == expected


@pytest.mark.parametrize("by_topic", [True, False])
def test_unclean_once_it_is_allowed(by_topic: bool) -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    controller = fixture.control(3)
    fixture.topic("t", {0: [1, 2]})
    fixture.kill(2)
    fixture.start(2)
    fixture.kill(1)
    assert fixture.state("t-0") == "leader -1 epoch 2 isr 1 by 1"
    if by_topic:
        run(ensure(fixture.client, "/config/changes"))
        run(fixture.configs.set_topic("t", {"unclean.leader.election.enable": "true"}))
        controller.unclean_election_allowed()
    else:
        controller.reconfigure(ControllerConfig(unclean_leader_election=True, auto_leader_rebalance=False))
    assert fixture.state("t-0") == "leader 2 epoch 3 isr 2 by 1"


def test_a_broker_that_moves_is_reached_elsewhere() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.take()
    moved = Broker(2, (Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 9),))
    run(fixture.sessions[2].set("/brokers/ids/2", encode_broker(moved, 1)))
    assert fixture.take() == "1 <- metadata (1,2)\n2 <- metadata (1,2)"
    assert fixture.reached[2] == "elsewhere"


def test_a_refusal_is_not_of_yesterday() -> None:
    """The leader has just taken the preferred replica back into the ISR; word of it is still to come."""
    fixture = ControllerFixture().start(1, 2, 3)
    controller = fixture.control(3)
    fixture.topic("t", {0: [1, 2]})
    fixture.kill(1)
    fixture.start(1)
    fixture.leader_writes("t-0", [2, 1], notify=False)
    answers = run(controller.elect_leaders("preferred", [tp("t-0")]))
    assert answers[tp("t-0")][0] is ErrorCode.NONE
    assert fixture.state("t-0") == "leader 1 epoch 3 isr 2,1 by 1"
    fixture.leader_writes("t-0", [1], notify=False)
    fixture.leader_writes("t-0", [1, 2], notify=False)
    broker = run(fixture.controllers[3]._stores.brokers.live())[0][1]
    assert run(controller.controlled_shutdown(ControlledShutdownRequest(1, broker.epoch))).partitions == ()
    assert fixture.state("t-0") == "leader 2 epoch 4 isr 1,2 by 1"


def test_a_replica_that_died_as_it_joined_is_taken_out() -> None:
    """The leader's write came before the controller saw the broker go, word of it after."""
    fixture = ControllerFixture().start(1, 2, 3)
    fixture.control(3)
    fixture.topic("t", {0: [1, 2, 3]})
    fixture.leader_writes("t-0", [1, 3])
    fixture.leader_writes("t-0", [1, 3, 2], notify=False)
    fixture.kill(2)
    run(IsrStore(fixture.client).notify([tp("t-0")]))
    assert fixture.state("t-0") == "leader 1 epoch 1 isr 1,3 by 1"


# trap: kafkalite/controller/topic_events.py: Topics created by the 2.8 tools have no `topic_id`: the controller adds
# it.
def test_missing_topic_ids_are_added() -> None:
    fixture = ControllerFixture().start(1)
    fixture.control(1)
    run(fixture.client.create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[1]}}'))
    found = run(fixture.topics.assignment("old"))
    assert found is not None and found[0].topic_id is not None
    _, request = fixture.notes[-1]
    assert isinstance(request, UpdateMetadataRequest)
    assert request.states[0].topic_id == found[0].topic_id != ZERO_UUID


def test_partitions_are_added() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    fixture.take()
    found = run(fixture.topics.assignment("t"))
    assert found is not None
    value = topic_znodes.decode_topic("t", fixture.zk.data("/brokers/topics/t"))
    more = topic_znodes.TopicAssignment(value.topic_id, {**value.partitions, 1: value.partitions[0]})
    run(fixture.topics.set_assignment("t", more))
    assert fixture.take() == text("""
        1 <- lead/follow (1,2) t-1: 1/0 [1,2]
        1 <- metadata (1,2) t-1: 1/0 [1,2]
        2 <- lead/follow (1,2) t-1: 1/0 [1,2]
        2 <- metadata (1,2) t-1: 1/0 [1,2]
    """)


def test_a_topic_without_live_replicas_waits_for_one() -> None:
    fixture = ControllerFixture().start(1)
    fixture.control(1)
    fixture.topic("t", {0: [2, 3]})
    assert fixture.state("t-0") == "none"
    fixture.start(3)
    assert fixture.state("t-0") == "leader 3 epoch 0 isr 3 by 1"


def test_controlled_shutdown() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    controller = fixture.control(1)
    fixture.topic("t", {0: [2, 3], 1: [3, 2], 2: [2], 3: [2, 3], 4: [2, 3, 1]})
    fixture.leader_writes("t-3", [2])
    fixture.take()
    broker = run(fixture.controllers[1]._stores.brokers.live())[0][2]
    stale = run(controller.controlled_shutdown(ControlledShutdownRequest(2, broker.epoch - 1)))
    assert stale.error is ErrorCode.STALE_BROKER_EPOCH
    response = run(controller.controlled_shutdown(ControlledShutdownRequest(2, broker.epoch)))
    assert response.error is ErrorCode.NONE
    assert [str(partition) for partition, _ in response.partitions] == ["t-3"]
    # Broker 2 follows to its end where an ISR of one would remain; the leader takes it out when it is gone.
    assert fixture.take() == text("""
        1 <- lead/follow (1,2,3) t-4: 3/1 [3,1]
        1 <- metadata (1,2,3) t-0: 3/1 [2,3]; t-4: 3/1 [3,1]
        2 <- lead/follow (1,2,3) t-0: 3/1 [2,3]
        2 <- metadata (1,2,3) t-0: 3/1 [2,3]; t-4: 3/1 [3,1]
        2 <- stop t-4 at 1
        3 <- lead/follow (1,2,3) t-0: 3/1 [2,3]; t-4: 3/1 [3,1]
        3 <- metadata (1,2,3) t-0: 3/1 [2,3]; t-4: 3/1 [3,1]
    """)
    fixture.kill(2)
    assert fixture.state("t-3") == "leader -1 epoch 1 isr 2 by 1"
    fixture.start(2)
    assert fixture.state("t-3") == "leader 2 epoch 2 isr 2 by 1"


def test_a_failed_log_directory() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(2)
    fixture.topic("t", {0: [1, 2], 1: [1, 2]})
    fixture.take()
    failed = {tp("t-0")}
    fixture.answer = lambda broker_id, request: ControlResponse(
        ErrorCode.NONE,
        tuple(
            (state.topic_partition, ErrorCode.KAFKA_STORAGE_ERROR)
            for state in (request.states if isinstance(request, LeaderAndIsrRequest) else ())
            if broker_id == 1 and state.topic_partition in failed
        ),
    )
    run(fixture.notifications.create_log_dir_event(1))
    assert fixture.state("t-0") == "leader 2 epoch 1 isr 2 by 1"
    assert fixture.state("t-1") == "leader 1 epoch 0 isr 1,2 by 1"
    assert fixture.zk.paths("/log_dir_event_notification/") == []
    fixture.take()
    # While the directory is broken, the replica is asked for nothing; a restart brings it back.
    failed.clear()
    fixture.kill(1)
    fixture.start(1)
    assert fixture.state("t-0") == "leader 2 epoch 1 isr 2 by 1"
    assert "1 <- lead/follow (1,2) t-0: 2/1 [2]; t-1: 2/2 [2]" in fixture.take()


def test_a_dead_broker_delays_no_other_broker_and_gets_its_requests_when_it_answers() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.refuse.add(2)
    fixture.topic("t", {0: [1, 2]})
    assert "2 <- " not in fixture.take().splitlines()[-1]
    fixture.topic("u", {0: [1]})
    assert fixture.state("u-0") == "leader 1 epoch 0 isr 1 by 1"
    fixture.take()
    fixture.refuse.clear()
    fixture.clock.advance(0.2)
    told = fixture.take()
    assert told.splitlines()[0] == "2 <- lead/follow (1,2) t-0: 1/0 [1,2]"
    assert told.splitlines()[-1] == "2 <- metadata (1,2) t-0: 1/0 [1,2]; u-0: 1/0 [1]"


def test_requests_for_a_former_incarnation_of_a_broker_are_dropped() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.refuse.add(2)
    fixture.topic("t", {0: [1, 2]})
    fixture.kill(2)
    fixture.refuse.clear()
    fixture.start(2)
    fixture.take()
    fixture.clock.advance(1)
    assert fixture.take() == ""


def test_who_is_not_controller_says_so() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    other = fixture.control(2)
    with pytest.raises(ApiError) as caught:
        run(other.elect_leaders("preferred", None))
    assert caught.value.code is ErrorCode.NOT_CONTROLLER
    assert run(other.controlled_shutdown(ControlledShutdownRequest(1, 1))).error is ErrorCode.STALE_CONTROLLER_EPOCH


def test_stopping_gives_the_claim_up() -> None:
    fixture = ControllerFixture().start(1, 2)
    first, second = fixture.control(1), fixture.control(2)
    run(first.stop())
    assert (first.is_active, second.is_active) == (False, True)
    assert second.epoch == 2


# trap: kafkalite/controller/topic_events.py: A topic whose znodes an operator deletes is made again between the two
# reads that follow: the first finds it gone, the second finds its name as before, and no partition would have a leader.
def test_a_topic_that_is_made_again_before_the_topics_are_listed_is_another_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    path = "/brokers/topics/t"
    new = TopicAssignment(uuid.uuid4(), {0: PartitionAssignment((2,))})
    listed = TopicStore.names

    async def made_again(store: TopicStore, watch: Watch | None = None) -> list[str]:
        monkeypatch.undo()
        await fixture.client.create(path, topic_znodes.encode_topic(new))
        return await listed(store, watch)

    monkeypatch.setattr(TopicStore, "names", made_again)
    ends = [f"{path}/partitions/0/state", f"{path}/partitions/0", f"{path}/partitions", path]
    run(fixture.client.multi([Delete(end) for end in ends]))
    assert fixture.state("t-0") == "leader 2 epoch 0 isr 2 by 1"


def test_a_topic_replaced_behind_our_back_is_another_topic() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    fixture.kill(2)
    fixture.start(2)
    assert fixture.state("t-0") == "leader 1 epoch 1 isr 1 by 1"
    fixture.take()
    new = TopicAssignment(uuid.uuid4(), {0: PartitionAssignment((2,))})
    path = "/brokers/topics/t"
    run(
        fixture.client.multi(
            [
                Delete(f"{path}/partitions/0/state"),
                Delete(f"{path}/partitions/0"),
                Delete(f"{path}/partitions"),
                Delete(path),
                Create(path, topic_znodes.encode_topic(new)),
            ]
        )
    )
    assert fixture.state("t-0") == "leader 2 epoch 0 isr 2 by 1"
    request = fixture.notes[-1][1]
    assert isinstance(request, UpdateMetadataRequest)
    assert request.states[0].topic_id == new.topic_id


def test_an_error_of_our_own_is_healed_by_reading_everything_again() -> None:
    fixture = ControllerFixture().start(1)
    controller = fixture.control(1)
    processor = controller._processor
    assert processor is not None

    async def fail() -> None:
        raise RuntimeError("a bug")

    processor.topics.topics_changed = fail  # type: ignore[method-assign]
    fixture.topic("t", {0: [1]})
    assert fixture.state("t-0") == "none"
    fixture.clock.advance(31)
    assert fixture.state("t-0") == "leader 1 epoch 0 isr 1 by 1"


def test_an_unknown_outcome_is_read_again() -> None:
    fixture = ControllerFixture().start(1, 2)
    controller = fixture.control(2)
    fixture.topic("t", {0: [1, 2]})
    client = fixture.controller_clients[2]

    def hole(name: str, _: str) -> None:
        if name == "multi":
            client.black_hole(apply=True)

    client.before = hole
    fixture.take()
    fixture.kill(1)
    assert fixture.state("t-0") == "leader 2 epoch 1 isr 1,2 by 1", "it was applied"
    assert fixture.take() == "", "but the controller does not know"
    client.before = None
    client.lose_connection()
    client.reconnect()
    fixture.clock.advance(2)
    assert controller.is_active
    assert fixture.take().splitlines()[0] == "2 <- lead/follow (2) t-0: 2/1 [1,2]"
    assert fixture.state("t-0") == "leader 2 epoch 1 isr 1,2 by 1"


def test_broker_that_shuts_down_is_not_elected_when_the_controller_goes_on_after_a_lost_connection() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    controller = fixture.control(3)
    fixture.topic("t", {0: [1, 2]})
    request = ControlledShutdownRequest(1, fixture.epoch(1))
    assert run(controller.controlled_shutdown(request)) == ControlResponse(ErrorCode.NONE)
    fixture.kill(2)
    assert fixture.state("t-0") == "leader -1 epoch 2 isr 1,2 by 1"
    client = fixture.controller_clients[3]
    for _ in range(2):
        client.lose_connection()
        client.reconnect()
    assert controller.is_active
    assert fixture.state("t-0") == "leader -1 epoch 2 isr 1,2 by 1"
    client.lose_connection()
    fixture.kill(1)
    fixture.start_cleanly(1)
    client.reconnect()
    assert fixture.state("t-0").startswith("leader 1 epoch 3"), "it has started again"


def test_what_a_later_controller_wrote_is_not_undone() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(2)
    fixture.topic("t", {0: [1, 2], 1: [1, 2]})
    state = fixture.read("t-0")
    assert state is not None
    later = topic_znodes.encode_state(state.with_(controller_epoch=9))
    run(fixture.client.set(topic_znodes.state_path(tp("t-0")), later))
    fixture.kill(1)
    assert fixture.state("t-0") == "leader 1 epoch 0 isr 1,2 by 9"
    assert fixture.state("t-1") == "leader 2 epoch 1 isr 1,2 by 1"


@pytest.mark.parametrize("mended", ["deleted", "rewritten"])
def test_a_malformed_claim_is_named_and_the_election_goes_on_when_it_is_mended(
    mended: str, caplog: pytest.LogCaptureFixture
) -> None:
    fixture = ControllerFixture().start(1, 2)
    run(fixture.client.create("/controller", b"rubbish"))
    fixture.control(1)
    fixture.clock.advance(60)
    (complaint,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert complaint.exc_info is None, "one clear line instead of tracebacks"
    assert "/controller: not JSON" in complaint.getMessage()
    assert "b'rubbish'; delete /controller" in complaint.getMessage()
    if mended == "deleted":
        run(fixture.client.delete("/controller"))
        assert fixture.active == {1: 1}, "at once"
    else:
        run(fixture.client.set("/controller", CONTROLLER_CLAIM.encode_claim(7, 0)))
        assert fixture.active == {1: 7}, "at once"


def test_a_malformed_epoch_is_named_and_the_election_goes_on_when_it_is_mended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture = ControllerFixture().start(1, 2)
    run(fixture.client.create("/controller_epoch", b"many"))
    fixture.control(1)
    fixture.clock.advance(60)
    (complaint,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert complaint.exc_info is None
    assert "/controller_epoch: not a number: b'many'; write into /controller_epoch" in complaint.getMessage()
    assert fixture.active == {}
    run(fixture.client.set("/controller_epoch", b"41"))
    fixture.clock.advance(2)
    assert fixture.active == {1: 1} and fixture.controllers[1].epoch == 42


def test_a_claim_overwritten_by_hand_does_not_end_the_term() -> None:
    """Its writes are fenced by the epoch's znode; the next controller, elected once the claim is mended, raises it."""
    fixture = ControllerFixture().start(1, 2)
    first = fixture.control(1)
    run(fixture.client.set("/controller", b"rubbish"))
    fixture.clock.advance(5)
    fixture.topic("t", {0: [1, 2]})
    assert fixture.state("t-0") == "leader 1 epoch 0 isr 1,2 by 1"
    run(fixture.client.delete("/controller"))
    assert first.is_active and first.epoch == 2


def test_a_malformed_topic_is_ignored_until_it_is_mended(caplog: pytest.LogCaptureFixture) -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    good = fixture.zk.data("/brokers/topics/t")
    run(fixture.client.set("/brokers/topics/t", b"rubbish"))
    (complaint,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert complaint.exc_info is None
    assert "/brokers/topics/t: not JSON" in complaint.getMessage()
    fixture.kill(1)
    assert fixture.state("t-0") == "leader 2 epoch 1 isr 1,2 by 1"
    value = topic_znodes.decode_topic("t", good)
    grown = TopicAssignment(value.topic_id, {**value.partitions, 1: PartitionAssignment((2,))})
    run(fixture.client.set("/brokers/topics/t", topic_znodes.encode_topic(grown)))
    assert fixture.state("t-1") == "leader 2 epoch 0 isr 2 by 1"


# trap: kafkalite/controller/controller.py: A lost write of the controller is still on its way, and takes effect after
# the controller has read everything again.
def test_a_write_that_a_lost_connection_delayed_does_not_take_effect_after_everything_was_read() -> None:
    """The controller would believe that broker 1 leads, while the state says broker 2."""
    fixture = ControllerFixture().start(1, 2)
    fixture.control(9)
    fixture.topic("t", {0: [1, 2]})
    client = fixture.controller_clients[9]
    stat = fixture.zk.tree.node("/controller_epoch").stat()
    state = fixture.read("t-0")
    assert state is not None
    on_its_way = state.with_(leader=2, leader_epoch=1)
    client.lose_connection()
    client.reconnect()
    write = SetData(topic_znodes.state_path(tp("t-0")), topic_znodes.encode_state(on_its_way), state.zk_version)
    with pytest.raises(MultiError):
        run(fixture.client.multi([Check("/controller_epoch", stat.version), write]))
    assert fixture.controllers[9].is_active and fixture.controllers[9].epoch == 1
    fixture.kill(1)
    assert fixture.state("t-0") == "leader 2 epoch 1 isr 1,2 by 1"


def test_a_claim_whose_renewal_got_no_answer_is_claimed_again() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(9)
    fixture.topic("t", {0: [1, 2]})
    client = fixture.controller_clients[9]

    def lose(name: str, path: str) -> None:
        if (name, path) == ("set", "/controller_epoch"):
            client.black_hole(apply=True)
            client.before = None

    client.before = lose
    client.lose_connection()
    client.reconnect()
    client.lose_connection()
    client.reconnect()
    fixture.clock.advance(5)
    assert fixture.controllers[9].is_active and fixture.controllers[9].epoch == 1
    fixture.kill(1)
    assert fixture.state("t-0") == "leader 2 epoch 1 isr 1,2 by 1"
