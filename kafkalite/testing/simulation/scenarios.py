"""The faults of a history: single faults, and scenarios composed of several faults.

Answers to: nothing in Kafka; the nemeses of Jepsen's tests. Deterministic: a scenario depends only on its own
random source and on the current state of the cluster.

Random single faults find few defects, because most defects need two or three events in a certain order. The docstring
of a composed scenario names the trap, or the bug in a real system, from which it comes. A scenario heals its own
faults. Scenarios run concurrently, so each step must be harmless if another scenario has changed its target before.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from kafkalite.common.types import NO_LEADER, TopicPartition
from kafkalite.testing.simulation.injector import FaultInjector

Play = Callable[[FaultInjector, random.Random], Awaitable[None]]


class Scenario(NamedTuple):
    """One kind of disorder. ``single``: one fault that is injected and healed, not a composed scenario."""

    play: Play
    single: bool
    needs: frozenset[str]
    """Options of the plan that the scenario needs: ``power``, ``disk``, ``admin``."""


SCENARIOS: Final[dict[str, Scenario]] = {}
"""Name → scenario. Plans contain the names, so that a failing history can be printed and shrunk."""


def _scenario(*needs: str, single: bool = False) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        SCENARIOS[play.__name__] = Scenario(play, single, frozenset(needs))
        return play

    return register


def _some_partition(inject: FaultInjector, rng: random.Random) -> TopicPartition | None:
    partitions = inject.partitions()
    return rng.choice(partitions) if partitions else None


def _written_partition(inject: FaultInjector, rng: random.Random) -> TopicPartition | None:
    """A partition to which every history writes, because a follower of an idle partition never falls behind."""
    partitions = [tp for tp in inject.partitions() if tp.topic == "orders"]
    return rng.choice(partitions) if partitions else None


def _some_coordinator(inject: FaultInjector, rng: random.Random) -> int | None:
    coordinators = inject.coordinators()
    return rng.choice(coordinators) if coordinators else None


async def _some_group_coordinator(inject: FaultInjector, rng: random.Random) -> int | None:
    """A coordinator of a group with members, because only members show its answers."""
    await inject.wait_until(lambda: bool(inject.group_coordinators()), 4)
    coordinators = inject.group_coordinators()
    return rng.choice(coordinators) if coordinators else None


def _followers(inject: FaultInjector, tp: TopicPartition) -> list[int]:
    return [broker for broker in inject.replicas(tp) if broker != inject.leader(tp)]


# Single faults


@_scenario(single=True)
async def kill_a_broker(inject: FaultInjector, rng: random.Random) -> None:
    """Kill a broker by ``kill -9``: the page cache stays, and the guardian ends the session."""
    broker = rng.choice(inject.brokers)
    inject.kill(broker)
    await inject.sleep(rng.uniform(0.05, 6))
    inject.start(broker)


@_scenario(single=True)
async def kill_a_leader(inject: FaultInjector, rng: random.Random) -> None:
    """Kill the leader of a random partition."""
    tp = _some_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER:
        return
    broker = inject.leader(tp)
    inject.kill(broker)
    await inject.sleep(rng.uniform(0.05, 6))
    inject.start(broker)


@_scenario(single=True)
async def kill_the_controller(inject: FaultInjector, rng: random.Random) -> None:
    """Kill the controller."""
    broker = inject.controller()
    if broker is None:
        return
    inject.kill(broker)
    await inject.sleep(rng.uniform(0.05, 6))
    inject.start(broker)


@_scenario(single=True)
async def restart_a_broker(inject: FaultInjector, rng: random.Random) -> None:
    """Stop a broker by a controlled shutdown, and start it."""
    broker = rng.choice(inject.brokers)
    await inject.stop(broker)
    await inject.sleep(rng.uniform(0.1, 3))
    inject.start(broker)


@_scenario("power", single=True)
async def lose_power_of_a_machine(inject: FaultInjector, rng: random.Random) -> None:
    """A machine loses its unsynced data; other machines notice the failure only by timeouts."""
    broker = rng.choice(inject.brokers)
    if inject.lose_power(broker):
        await inject.sleep(rng.uniform(0.1, 8))
    inject.start(broker)


@_scenario(single=True)
async def pause_a_broker(inject: FaultInjector, rng: random.Random) -> None:
    """Pause a broker (SIGSTOP), like a long garbage collection or a suspended machine."""
    broker = rng.choice(inject.brokers)
    inject.pause(broker)
    await inject.sleep(rng.uniform(0.2, 8))
    inject.resume(broker)


@_scenario(single=True)
async def pause_clients(inject: FaultInjector, rng: random.Random) -> None:
    """Clients are paused during rebalances, or during the ends of their transactions, and then continue."""
    clients = inject.clients()
    sleepers = rng.sample(clients, rng.randint(1, max(1, len(clients) // 2)))
    for client in sleepers:
        inject.pause_client(client)
    await inject.sleep(rng.uniform(0.5, 8))
    for client in sleepers:
        inject.resume_client(client)
        await inject.sleep(rng.uniform(0, 0.3))


@_scenario(single=True)
async def lose_answers_of_a_broker(inject: FaultInjector, rng: random.Random) -> None:
    """One broker executes its clients' requests, but its answers are lost, so the clients repeat their requests."""
    broker = rng.choice(inject.brokers)
    for _ in range(rng.randint(1, 3)):
        inject.hold_answers(broker)
        await inject.sleep(rng.choice((0.05, 0.5, 5)) * rng.uniform(0.2, 1))
        if rng.random() < 0.7:
            inject.reset(broker)
        inject.release_answers(broker)
        await inject.sleep(rng.uniform(0.1, 1))


@_scenario(single=True)
async def cut_two_brokers_off(inject: FaultInjector, rng: random.Random) -> None:
    """Two brokers cannot reach each other; both reach ZooKeeper and the clients."""
    one, other = rng.sample(inject.brokers, 2)
    inject.hold(one, other)
    await inject.sleep(rng.uniform(0.3, 6))
    inject.release(one, other)


@_scenario(single=True)
async def cut_one_way(inject: FaultInjector, rng: random.Random) -> None:
    """Bytes from one broker to another do not arrive; bytes in the other direction do."""
    one, other = rng.sample(inject.brokers, 2)
    inject.hold(one, other, one_way=True)
    await inject.sleep(rng.uniform(0.3, 6))
    inject.release(one, other)


@_scenario(single=True)
async def isolate_a_broker(inject: FaultInjector, rng: random.Random) -> None:
    """One broker cannot reach any other broker; clients and ZooKeeper reach it."""
    broker = rng.choice(inject.brokers)
    others = [other for other in inject.brokers if other != broker]
    for other in others:
        inject.hold(broker, other)
    await inject.sleep(rng.uniform(0.3, 6))
    for other in others:
        inject.release(broker, other)


@_scenario(single=True)
async def reset_connections(inject: FaultInjector, rng: random.Random) -> None:
    """All connections of a broker break at once, clients' connections included; answers in flight are lost."""
    for _ in range(rng.randint(1, 4)):
        inject.reset(rng.choice(inject.brokers))
        await inject.sleep(rng.uniform(0.05, 0.6))


@_scenario(single=True)
async def slow_network(inject: FaultInjector, rng: random.Random) -> None:
    """All bytes to and from one broker are late, so batches arrive after timeouts and are repeated."""
    broker = rng.choice(inject.brokers)
    inject.slow(broker, rng.uniform(0.05, 0.8))
    await inject.sleep(rng.uniform(0.5, 5))
    inject.unslow(broker)


@_scenario(single=True)
async def slow_readers(inject: FaultInjector, rng: random.Random) -> None:
    """Clients read one broker's answers in small pieces, so answers wait in the broker for a long time."""
    broker = rng.choice(inject.brokers)
    inject.slow_readers(broker, rng.choice((64, 512, 4096)))
    await inject.sleep(rng.uniform(0.5, 5))
    inject.quick_readers(broker)


@_scenario(single=True)
async def cut_a_broker_off_zookeeper(inject: FaultInjector, rng: random.Random) -> None:
    """A broker loses its connection to ZooKeeper, perhaps for longer than its session timeout."""
    broker = rng.choice(inject.brokers)
    inject.cut_zookeeper(broker)
    await inject.sleep(rng.uniform(0.2, 8))
    inject.mend_zookeeper(broker)


@_scenario(single=True)
async def swallow_zookeepers_answers(inject: FaultInjector, rng: random.Random) -> None:
    """A broker's writes to ZooKeeper take effect, and their answers are lost."""
    broker = rng.choice(inject.brokers)
    inject.swallow_zookeeper_answers(broker)
    await inject.sleep(rng.uniform(0.2, 5))
    inject.mend_zookeeper(broker)


@_scenario(single=True)
async def reset_zookeeper_connections(inject: FaultInjector, rng: random.Random) -> None:
    """A broker's connection to ZooKeeper breaks several times, with outstanding reads, writes and watches."""
    broker = rng.choice(inject.brokers)
    for _ in range(rng.randint(1, 5)):
        inject.reset_zookeeper_connection(broker)
        await inject.sleep(rng.choice((0.02, 0.2, 1)) * rng.uniform(0.2, 1))


@_scenario(single=True)
async def expire_a_session(inject: FaultInjector, rng: random.Random) -> None:
    """ZooKeeper expires the session of a healthy broker with outstanding requests."""
    inject.expire_session(rng.choice(inject.brokers))


@_scenario(single=True)
async def kill_a_zookeeper_server(inject: FaultInjector, rng: random.Random) -> None:
    """The clients of a killed server reconnect to another one; if it led, writes wait for the next leader."""
    server = rng.randrange(inject.zookeeper_servers)
    inject.kill_zookeeper_server(server)
    await inject.sleep(rng.uniform(0.3, 5))
    inject.start_zookeeper_server(server)


@_scenario(single=True)
async def lag_a_zookeeper_server(inject: FaultInjector, rng: random.Random) -> None:
    """The brokers that are connected to one ZooKeeper server read old states."""
    server = rng.randrange(inject.zookeeper_servers)
    inject.lag_zookeeper_server(server, rng.uniform(0.1, 2))
    await inject.sleep(rng.uniform(1, 6))
    inject.lag_zookeeper_server(server, 0)


@_scenario("disk", single=True)
async def fill_a_disk(inject: FaultInjector, rng: random.Random) -> None:
    """A disk is full for a while; the broker refuses appends, loses no record, and keeps the directory online."""
    broker = rng.choice(inject.brokers)
    inject.fill_disk(broker, rng.randint(0, 4000))
    await inject.sleep(rng.uniform(0.5, 4))
    inject.free_disk(broker)


@_scenario("disk", single=True)
async def break_a_disk(inject: FaultInjector, rng: random.Random) -> None:
    """An I/O error takes the directory offline; then the disk is repaired, and the process restarted."""
    broker = rng.choice(inject.brokers)
    inject.break_disk(broker, rng.choice(("write", "fsync", "read")), rng.randint(0, 20))
    await inject.sleep(rng.uniform(1, 5))
    inject.mend_disk(broker)
    inject.kill(broker)
    await inject.sleep(rng.uniform(0.1, 1))
    inject.start(broker)


@_scenario("disk", single=True)
async def disk_reads_a_wrong_bit(inject: FaultInjector, rng: random.Random) -> None:
    """A disk reads a wrong bit: readers, followers and the cleaner refuse the batch by its CRC until the repair."""
    broker = rng.choice(inject.brokers)
    if inject.flip_a_bit(broker, rng):
        await inject.sleep(rng.uniform(0.5, 4))
        inject.mend_bits(broker)


# Composed scenarios


@_scenario()
async def laggard_then_the_rest_dies(inject: FaultInjector, rng: random.Random) -> None:
    """One follower leaves the ISR, then all other replicas die: the follower must not become leader.

    From the unclean elections of Kafka before 0.11 (``unclean.leader.election.enable`` was on by default).
    """
    tp = _some_partition(inject, rng)
    if tp is None or not _followers(inject, tp):
        return
    laggard = rng.choice(_followers(inject, tp))
    others = [broker for broker in inject.replicas(tp) if broker != laggard]
    for other in others:
        inject.hold(laggard, other)
    await inject.wait_until(lambda: laggard not in inject.isr(tp), 6)
    await inject.sleep(rng.uniform(0.1, 1.5))
    for other in others:
        inject.kill(other)
        await inject.sleep(rng.uniform(0, 0.4))
    for other in others:
        inject.release(laggard, other)
    await inject.sleep(rng.uniform(0.5, 3))
    for other in others:
        inject.start(other)
        await inject.sleep(rng.uniform(0, 1))


@_scenario()
async def isr_write_with_unknown_outcome(inject: FaultInjector, rng: random.Random) -> None:
    """The leader shrinks the ISR and does not learn the outcome of the write; then the other replicas die.

    The high watermark must not advance on an ISR that ZooKeeper has not acknowledged (KAFKA-13091's family).
    """
    tp = _some_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER or not _followers(inject, tp):
        return
    leader = inject.leader(tp)
    laggard = rng.choice(_followers(inject, tp))
    inject.hold(laggard, leader)
    if rng.random() < 0.5:
        inject.swallow_zookeeper_answers(leader)
    else:
        inject.cut_zookeeper(leader)
    await inject.sleep(rng.uniform(1.5, 4.5))
    victims = [broker for broker in inject.replicas(tp) if broker != laggard]
    for victim in victims:
        inject.kill(victim)
    inject.release(laggard, leader)
    inject.mend_zookeeper(leader)
    await inject.sleep(rng.uniform(0.5, 4))
    for victim in rng.sample(victims, len(victims)):
        inject.start(victim)
        await inject.sleep(rng.uniform(0, 1.5))


@_scenario()
async def isr_grows_with_unknown_outcome(inject: FaultInjector, rng: random.Random) -> None:
    """The leader adds a member to the ISR, does not learn the outcome, and the member falls behind at once.

    The member counts for the high watermark from the write until the leader knows that the write failed.
    """
    tp = _written_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER or not _followers(inject, tp):
        return
    leader = inject.leader(tp)
    laggard = rng.choice(_followers(inject, tp))
    inject.hold(laggard, leader)
    if not await inject.wait_until(lambda: laggard not in inject.isr(tp), 6):
        inject.release(laggard, leader)
        return
    # Wait until the leader knows that the shrink succeeded, because it starts no second write before that.
    await inject.sleep(rng.uniform(0.1, 0.3))
    inject.slow_zookeeper(leader, rng.uniform(0.1, 0.3))
    inject.release(laggard, leader)
    await inject.wait_until(lambda: laggard in inject.isr(tp), 3)
    inject.hold(laggard, leader)
    # The broken connection loses the answer to the write.
    inject.reset_zookeeper_connection(leader)
    await inject.sleep(rng.uniform(0.5, 2))
    inject.unslow_zookeeper(leader)
    if rng.random() < 0.5:
        inject.kill(leader)
    inject.release(laggard, leader)
    await inject.sleep(rng.uniform(0.5, 2))
    inject.start(leader)


@_scenario()
async def isr_shrinks_during_an_election(inject: FaultInjector, rng: random.Random) -> None:
    """The leader removes a follower from the ISR between the controller's read of the state and its write.

    The controller's write must fail, or else it brings the removed follower back (the expected ``zkVersion`` of
    ``KafkaZkClient.updateLeaderAndIsr``).
    """
    for _ in range(2):
        await inject.wait_until(lambda: inject.controller() is not None, 4)
        controller = inject.controller()
        leaders = sorted({inject.leader(tp) for tp in inject.partitions()} - {NO_LEADER, controller})
        if controller is None or not leaders:
            return
        leader = rng.choice(leaders)
        failing = rng.choice([broker for broker in inject.brokers if broker not in (controller, leader)])
        laggard = rng.choice([broker for broker in inject.brokers if broker not in (failing, leader)])

        def is_about_to_shrink(leader: int = leader, members: frozenset[int] = frozenset((failing, laggard))) -> bool:
            return any(
                inject.leader(tp) == leader and members <= set(inject.isr(tp)) and inject.is_isr_pending(tp)
                for tp in inject.partitions()
            )

        distance = rng.uniform(0.02, 0.08)
        inject.slow_zookeeper(controller, distance)
        inject.slow_zookeeper(leader, distance * rng.uniform(1.3, 2))
        inject.hold(laggard, leader, one_way=True)
        if await inject.wait_until(is_about_to_shrink, 5, look=0.01):
            # The controller's write arrives after six messages to and from ZooKeeper, the leader's after three.
            inject.kill(failing)
            await inject.sleep(10 * distance)
        inject.unslow_zookeeper(leader)
        inject.unslow_zookeeper(controller)
        inject.release(laggard, leader)
        inject.start(failing)
        await inject.sleep(rng.uniform(0.5, 1.5))


@_scenario()
async def laggard_meets_a_fresh_leader(inject: FaultInjector, rng: random.Random) -> None:
    """A follower outside the ISR fetches from a new leader that does not know the last high watermark yet.

    The follower may join the ISR only with all records that the leader had when its epoch began (KAFKA-7128).
    """
    tp = _written_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER or len(_followers(inject, tp)) < 2:
        return
    leader = inject.leader(tp)
    laggard, heir = rng.sample(_followers(inject, tp), 2)
    inject.hold(laggard, leader)
    inject.slow_zookeeper(leader, rng.uniform(0.1, 0.3))
    if await inject.wait_until(lambda: laggard not in inject.isr(tp), 6):
        # The leader advances the high watermark once it knows the smaller ISR; the next leader does not learn that.
        inject.hold(leader, heir, one_way=True)
        await inject.sleep(rng.uniform(0.3, 0.6))
    inject.unslow_zookeeper(leader)
    inject.expire_session(leader)
    await inject.wait_until(lambda: inject.leader(tp) == heir, 2)
    inject.hold(leader, heir)
    await inject.sleep(rng.uniform(0.5, 2))
    inject.release(laggard, leader)
    inject.release(leader, heir)


@_scenario()
async def last_high_watermark_is_not_taken(inject: FaultInjector, rng: random.Random) -> None:
    """A follower drops the answer with the last high watermark, because its leader epoch has changed meanwhile.

    No further record is written, so the leader must send the high watermark again (seed 23 of the first histories).
    """
    # Wait, because further records of starting producers would bring the high watermark to the follower.
    await inject.sleep(rng.uniform(1, 2.5))
    controller = inject.controller()
    # The leader is not the controller, because the controller's request must overtake the answer, and the controller
    # must keep its session.
    choice = [
        tp for tp in inject.partitions() if tp.topic == "orders" and inject.leader(tp) not in (NO_LEADER, controller)
    ]
    tp = rng.choice(choice) if choice else None
    if tp is None or len(_followers(inject, tp)) < 2:
        return
    leader = inject.leader(tp)
    follower, expired = sorted(_followers(inject, tp)[:2], key=lambda broker: broker != controller)

    def is_to_be_told() -> bool:
        ends, known = inject.ends(tp), inject.high_watermarks(tp)
        return ends.get(follower, -1) == ends.get(leader) and known.get(follower, 0) < known.get(leader, 0)

    inject.slow(follower, 0.1)
    await inject.sleep(rng.uniform(0.2, 0.6))
    clients = inject.clients()
    for client in clients:
        inject.pause_client(client)
    if await inject.wait_until(is_to_be_told, 2, look=0.005):
        inject.hold(leader, follower, one_way=True)
        # Wait for the end of the long poll, so that no request of the old epoch waits at the leader.
        await inject.sleep(0.65)
        epoch = inject.leader_epoch(tp)
        inject.expire_session(expired)
        await inject.wait_until(lambda: inject.leader_epoch(tp) > epoch, 0.3)
        await inject.sleep(0.15)
    inject.unslow(follower)
    inject.release(leader, follower)
    await inject.sleep(rng.uniform(2, 3))
    for client in clients:
        inject.resume_client(client)


@_scenario()
async def all_followers_lag(inject: FaultInjector, rng: random.Random) -> None:
    """No follower fetches for longer than the maximum lag, so the leader is alone in the ISR and refuses records."""
    tp = _written_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER:
        return
    leader, followers = inject.leader(tp), _followers(inject, tp)
    for follower in followers:
        inject.hold(leader, follower)
        await inject.sleep(rng.uniform(0, 0.5))
    await inject.wait_until(lambda: inject.isr(tp) == (leader,) or inject.leader(tp) != leader, 9)
    await inject.sleep(rng.uniform(0.1, 1))
    for follower in followers:
        inject.release(leader, follower)


@_scenario()
async def truncated_while_it_flushes(inject: FaultInjector, rng: random.Random) -> None:
    """On a slow disk a former leader truncates and appends before it learns that its last flush is complete.

    The flush does not cover the records that were written after the truncation.
    """
    tp = _written_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER:
        return
    leader, followers = inject.leader(tp), _followers(inject, tp)
    for follower in followers:
        inject.hold(leader, follower)
    await inject.wait_until(lambda: inject.ends(tp).get(leader, 0) > min(inject.ends(tp).values(), default=0), 1)
    inject.slow_disk(leader, rng.uniform(0.2, 1.5))
    flush = inject.begin_flush(leader, tp)
    inject.expire_session(leader)
    await inject.wait_until(lambda: inject.leader(tp) not in (leader, NO_LEADER), 3)
    await inject.sleep(rng.uniform(0.05, 0.2))
    for follower in followers:
        inject.release(leader, follower)
    if flush is not None:
        await inject.wait_until(lambda: flush.is_overtaken, 4)
        flush.finish()
    await inject.sleep(rng.uniform(0, 1))
    inject.slow_disk(leader, 0)


@_scenario()
async def leader_cut_off_then_followers_restarted(inject: FaultInjector, rng: random.Random) -> None:
    """A leader without reachable followers keeps serving; another one is elected, and the followers must not truncate.

    From the truncation by high watermark that KIP-101 and KIP-279 replaced.
    """
    tp = _some_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER:
        return
    leader, followers = inject.leader(tp), _followers(inject, tp)
    for follower in followers:
        inject.hold(leader, follower)
    await inject.sleep(rng.uniform(0.3, 3))
    for follower in followers:
        inject.kill(follower)
        await inject.sleep(rng.uniform(0.05, 0.8))
        inject.start(follower)
    await inject.sleep(rng.uniform(0.2, 2))
    for follower in followers:
        inject.release(leader, follower)
    inject.kill(leader)
    await inject.sleep(rng.uniform(0.1, 2))
    inject.start(leader)


@_scenario()
async def unacknowledged_tail_then_elections(inject: FaultInjector, rng: random.Random) -> None:
    """A leader has records that no follower has, and two elections follow before it is back.

    The replicas diverge if the recovery changes leader epochs (defect 4 of the first histories).
    """
    tp = _some_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER:
        return
    first = inject.leader(tp)
    for follower in _followers(inject, tp):
        inject.hold(first, follower)
    await inject.sleep(rng.uniform(0.05, 0.8))
    inject.kill(first)
    for follower in _followers(inject, tp):
        inject.release(first, follower)
    await inject.wait_until(lambda: inject.leader(tp) not in (first, NO_LEADER), 8)
    await inject.sleep(rng.uniform(0.1, 1))
    if rng.random() < 0.5:
        inject.start(first)
        await inject.sleep(rng.uniform(0, 1))
    second = inject.leader(tp)
    if second not in (first, NO_LEADER):
        inject.kill(second)
        await inject.sleep(rng.uniform(0.2, 2))
    inject.start(first)
    inject.start(second)
    await inject.sleep(rng.uniform(0.1, 1.5))
    inject.kill(first)
    await inject.sleep(rng.uniform(0.1, 1))
    inject.start(first)


@_scenario()
async def mute_controller(inject: FaultInjector, rng: random.Random) -> None:
    """The controller's requests arrive seconds late, when its decisions are outdated."""
    controller = inject.controller()
    if controller is None:
        return
    others = [broker for broker in inject.brokers if broker != controller]
    muted = others if rng.random() < 0.5 else [rng.choice(others)]
    for other in muted:
        inject.hold(controller, other, one_way=True)
    victim = rng.choice(others)
    inject.kill(victim)
    await inject.sleep(rng.uniform(0.1, 1.5))
    inject.start(victim)
    await inject.sleep(rng.uniform(0.2, 3))
    if rng.random() < 0.5:
        inject.expire_session(controller)
        await inject.sleep(rng.uniform(0.1, 1))
    for other in muted:
        inject.release(controller, other)


@_scenario()
async def paused_leader_with_requests_in_flight(inject: FaultInjector, rng: random.Random) -> None:
    """A leader is paused past its session timeout with Produce and Fetch requests in its buffers, and resumed."""
    tp = _some_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER:
        return
    leader = inject.leader(tp)
    inject.pause(leader)
    if rng.random() < 0.5:
        await inject.wait_until(lambda: inject.leader(tp) not in (leader, NO_LEADER), 15)
    else:
        await inject.sleep(rng.uniform(2, 9))
    await inject.sleep(rng.uniform(0, 1))
    inject.resume(leader)


@_scenario()
async def paused_controller(inject: FaultInjector, rng: random.Random) -> None:
    """A controller is paused within an event, and resumed after its successor's election."""
    controller = inject.controller()
    if controller is None:
        return
    victim = rng.choice([broker for broker in inject.brokers if broker != controller])
    inject.kill(victim)
    await inject.sleep(rng.uniform(0, 0.05))
    inject.pause(controller)
    await inject.wait_until(lambda: inject.controller() not in (controller, None), 15)
    await inject.sleep(rng.uniform(0, 1.5))
    inject.start(victim)
    inject.resume(controller)


@_scenario("power")
async def quick_reboots(inject: FaultInjector, rng: random.Random) -> None:
    """Machines lose power and are back before their sessions end, each after the one before has caught up."""
    for _ in range(rng.randint(1, 3)):
        broker = rng.choice(inject.brokers)
        if not inject.lose_power(broker):
            await inject.sleep(0.5)
            continue
        await inject.sleep(rng.uniform(0.05, 1))
        inject.start(broker)
        await inject.sleep(rng.uniform(0.5, 3))


@_scenario("power")
async def rolling_power_loss(inject: FaultInjector, rng: random.Random) -> None:
    """Every machine loses power in turn, each after the one before has all acknowledged records again."""
    for broker in rng.sample(inject.brokers, len(inject.brokers)):
        await inject.wait_until(inject.power_may_fail, 10)
        if inject.lose_power(broker):
            await inject.sleep(rng.uniform(0.05, 4))
            inject.start(broker)


@_scenario("power")
async def power_after_an_unclean_start(inject: FaultInjector, rng: random.Random) -> None:
    """A broker is killed, starts, writes its checkpoints, and loses power, though the log read at its start was not
    synced.

    The recovery point must not be the log's end after an unclean start (defect 1 of the first histories).
    """
    broker = rng.choice(inject.brokers)
    inject.kill(broker)
    await inject.sleep(rng.uniform(0.05, 1))
    inject.start(broker)
    await inject.sleep(rng.uniform(1, 4))
    if inject.lose_power(broker):
        await inject.sleep(rng.uniform(0.1, 1))
    inject.start(broker)


@_scenario("power")
async def power_after_a_truncation(inject: FaultInjector, rng: random.Random) -> None:
    """A leader with records of its own becomes a follower, truncates, appends, and loses power.

    The checkpointed recovery point must not be above the truncated end (defect 2 of the first histories).
    """
    tp = _some_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER:
        return
    first = inject.leader(tp)
    followers = _followers(inject, tp)
    for follower in followers:
        inject.hold(first, follower)
    await inject.sleep(rng.uniform(0.3, 1.4))
    inject.expire_session(first)
    for follower in followers:
        inject.release(first, follower)
    await inject.sleep(rng.uniform(0.5, 2.5))
    if inject.lose_power(first):
        await inject.sleep(rng.uniform(0.1, 1))
    inject.start(first)


@_scenario("power")
async def restart_that_no_controller_saw(inject: FaultInjector, rng: random.Random) -> None:
    """A machine loses power and is back while the controller is cut off from ZooKeeper or dead.

    Kafka's ZooKeeper mode loses records here at a change of controllers (defect 3 of the first histories).
    """
    controller = inject.controller()
    if controller is None:
        return
    victim = rng.choice([broker for broker in inject.brokers if broker != controller])
    how = rng.choice(("suspended", "killed", "expired"))
    if how == "suspended":
        inject.cut_zookeeper(controller)
    elif how == "killed":
        inject.kill(controller)
    else:
        inject.pause(controller)
    lost = inject.lose_power(victim)
    await inject.sleep(rng.uniform(0.05, 1.5))
    inject.start(victim)
    await inject.sleep(rng.uniform(0, 2))
    if how == "suspended":
        inject.mend_zookeeper(controller)
    elif how == "killed":
        inject.start(controller)
    else:
        inject.resume(controller)
    await inject.sleep(rng.uniform(0.1, 2))
    if lost and rng.random() < 0.6:
        other = rng.choice([broker for broker in inject.brokers if broker != victim])
        inject.kill(other)
        await inject.sleep(rng.uniform(0.3, 3))
        inject.start(other)


@_scenario("power")
async def isr_change_hides_a_restart(inject: FaultInjector, rng: random.Random) -> None:
    """While the controller is cut off, one follower restarts after a power loss, and the leader removes another one.

    The state is then newer than the registration after the power loss (defect 7 of the first histories).
    """
    tp = _some_partition(inject, rng)
    controller = inject.controller()
    if tp is None or controller is None or inject.leader(tp) == NO_LEADER:
        return
    leader, followers = inject.leader(tp), _followers(inject, tp)
    if len(followers) < 2:
        return
    rebooted, laggard = rng.sample(followers, 2)
    inject.cut_zookeeper(controller)
    inject.hold(leader, laggard)
    inject.lose_power(rebooted)
    await inject.sleep(rng.uniform(0.05, 0.6))
    inject.start(rebooted)
    await inject.wait_until(lambda: laggard not in inject.isr(tp), 5)
    if controller != leader:
        inject.kill(leader)
    inject.mend_zookeeper(controller)
    inject.release(leader, laggard)
    await inject.sleep(rng.uniform(0.5, 4))
    inject.start(leader)


@_scenario("power")
async def leader_bounces_while_its_follower_dies(inject: FaultInjector, rng: random.Random) -> None:
    """A slow controller finds at the same time that a leader came back shortened and that the longer followers died.

    If it handles both in one plan, the shortened log leads (defect 6 of the first histories).
    """
    tp = _some_partition(inject, rng)
    controller = inject.controller()
    if tp is None or controller is None or inject.leader(tp) in (NO_LEADER, controller):
        return
    leader, followers = inject.leader(tp), [broker for broker in _followers(inject, tp) if broker != controller]
    inject.swallow_zookeeper_answers(controller)
    lost = inject.lose_power(leader)
    await inject.sleep(rng.uniform(0.05, 1))
    inject.start(leader)
    for follower in followers:
        inject.kill(follower)
    await inject.sleep(rng.uniform(0.2, 1.5))
    inject.mend_zookeeper(controller)
    await inject.sleep(rng.uniform(0.5, 3) if lost else 0.2)
    for follower in followers:
        inject.start(follower)


@_scenario()
async def session_lost_during_a_quick_restart(inject: FaultInjector, rng: random.Random) -> None:
    """A broker is back before its former znode is deleted, waits for that, and loses its new session meanwhile.

    A leader bound to the wrong session can never change an ISR (defect 5 of the first histories). The other brokers
    restart, so that this broker leads and must add them to the ISR.
    """
    broker = rng.choice(inject.brokers)
    inject.kill(broker, guardian_dies_too=True)
    await inject.sleep(rng.uniform(0.05, 0.5))
    inject.start(broker)
    await inject.sleep(rng.uniform(0.05, 2.5))
    inject.expire_session(broker)
    if rng.random() < 0.3:
        return
    await inject.wait_until(lambda: inject.is_registered(broker), 6)
    await inject.sleep(rng.uniform(0.5, 2))
    for other in rng.sample(inject.brokers, len(inject.brokers)):
        if other != broker:
            inject.kill(other)
            await inject.sleep(rng.uniform(0.05, 0.5))
            inject.start(other)
            await inject.sleep(rng.uniform(0.5, 1.5))


@_scenario("power")
async def held_fetch_of_an_earlier_life(inject: FaultInjector, rng: random.Random) -> None:
    """A follower's fetch arrives at the leader after the follower lost power and came back shortened.

    The fetch must not count as progress of the restarted follower (KIP-903 fences by broker epoch).
    """
    tp = _written_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER or not _followers(inject, tp):
        return
    leader, follower = inject.leader(tp), rng.choice(_followers(inject, tp))

    def asks_for_more() -> bool:
        """Whether the follower has all records, so that it could join the ISR, and the leader does not know that."""
        ends = inject.ends(tp)
        return inject.known_end(tp, follower) < ends.get(leader, 0) == ends.get(follower, 0)

    for _ in range(5):
        inject.hold(follower, leader, one_way=True)
        is_caught = await inject.wait_until(asks_for_more, rng.uniform(0.1, 0.8), look=0.002)
        if is_caught or inject.leader(tp) != leader:
            break
        inject.release(follower, leader)
        await inject.sleep(rng.uniform(0.05, 0.3))
    if asks_for_more() and rng.random() < 0.8:
        # No record is written, and the leader removes the follower from the ISR within the same leader epoch.
        clients = inject.clients()
        for client in clients:
            inject.pause_client(client)
        await inject.wait_until(lambda: follower not in inject.isr(tp), 5)
        inject.lose_power(follower)
        inject.start(follower)
        await inject.sleep(rng.uniform(0.2, 0.6))
        inject.release(follower, leader)
        await inject.sleep(rng.uniform(0, 0.5))
        for client in clients:
            inject.resume_client(client)
        return
    inject.lose_power(follower)
    await inject.sleep(rng.uniform(0.05, 0.5))
    inject.start(follower)
    await inject.sleep(rng.uniform(0, 1))
    inject.release(follower, leader)
    await inject.sleep(rng.uniform(0, 0.5))
    inject.kill(leader)
    await inject.sleep(rng.uniform(0.3, 2))
    inject.start(leader)


@_scenario()
async def zookeeper_leader_lost_in_a_multi(inject: FaultInjector, rng: random.Random) -> None:
    """ZooKeeper's leader dies while the controller writes elections; each multi takes effect as a whole or not."""
    victim = rng.choice(inject.brokers)
    inject.kill(victim)
    await inject.sleep(rng.uniform(0, 0.05))
    server = inject.zookeeper_leader()
    if server is not None:
        inject.kill_zookeeper_server(server)
        await inject.sleep(rng.uniform(0.5, 4))
        inject.start_zookeeper_server(server)
    inject.start(victim)


@_scenario()
async def controller_moves_in_a_storm(inject: FaultInjector, rng: random.Random) -> None:
    """Several controllers within a second, each stopped in the middle of its work."""
    for _ in range(rng.randint(2, 4)):
        controller = inject.controller()
        if controller is not None:
            inject.expire_session(controller)
        await inject.sleep(rng.uniform(0.02, 0.5))


@_scenario()
async def former_controller_with_work_under_way(inject: FaultInjector, rng: random.Random) -> None:
    """An operator deletes ``/controller`` during an election; the controller's session lives, and its writes are late.

    Only the controller epoch fences it (Kafka checks ``/controller_epoch`` in each write since KAFKA-6082).
    """
    controller = inject.controller()
    if controller is None:
        return
    distance = rng.uniform(0.004, 0.02)
    inject.slow_zookeeper(controller, distance)
    victim = rng.choice([broker for broker in inject.brokers if broker != controller])
    if rng.random() < 0.5:
        inject.kill(victim)
    else:
        inject.expire_session(victim)
    # The controller writes after six messages to and from ZooKeeper; its successor, which is faster, claims meanwhile.
    await inject.sleep(rng.uniform(0, 6 * distance))
    inject.depose_controller()
    await inject.wait_until(lambda: inject.controller() not in (controller, None), 2)
    await inject.sleep(rng.uniform(0, 0.5))
    inject.start(victim)
    await inject.sleep(rng.uniform(0, 1))
    inject.unslow_zookeeper(controller)


@_scenario()
async def bounce_before_the_controller_looks(inject: FaultInjector, rng: random.Random) -> None:
    """A broker restarts between two reads of a controller that has a slow connection to ZooKeeper or none.

    Only the czxid of the registration shows the restart to the controller (broker epochs, KAFKA-7235).
    """
    tp = _some_partition(inject, rng)
    controller = inject.controller()
    if tp is None or controller is None:
        return
    others = [broker for broker in inject.brokers if broker != controller]
    broker = inject.leader(tp) if inject.leader(tp) in others else rng.choice(others)
    is_suspended = rng.random() < 0.3
    if is_suspended:
        inject.cut_zookeeper(controller)
    else:
        inject.slow_zookeeper(controller, rng.uniform(0.2, 0.7))
    if rng.random() < 0.6:
        inject.expire_session(broker)
    else:
        inject.kill(broker)
        await inject.sleep(rng.uniform(0, 0.05))
        inject.start(broker)
    await inject.sleep(0.05)
    await inject.wait_until(lambda: inject.is_registered(broker), 1.5)
    await inject.sleep(rng.uniform(0, 0.5))
    inject.mend_zookeeper(controller)
    await inject.sleep(rng.uniform(0.5, 2))
    inject.unslow_zookeeper(controller)


@_scenario()
async def changes_that_are_read_late(inject: FaultInjector, rng: random.Random) -> None:
    """All ZooKeeper servers lag by different times while leaders, ISRs and controllers change.

    A broker then reads states that are older than the controller's requests, and a new controller or coordinator must
    not decide by its reads before its claim (ZooKeeper's reads are not linearizable across sessions).
    """
    servers = range(inject.zookeeper_servers)
    for server in servers:
        inject.lag_zookeeper_server(server, rng.uniform(0.2, 1.5))
    for _ in range(rng.randint(2, 4)):
        controller = inject.controller()
        broker = rng.choice(inject.brokers)
        if rng.random() < 0.3 and controller is not None:
            inject.expire_session(controller)
        elif rng.random() < 0.4:
            inject.expire_session(broker)
        else:
            inject.kill(broker)
            await inject.sleep(rng.uniform(0.05, 0.5))
            inject.start(broker)
        await inject.sleep(rng.uniform(0.2, 1.5))
    for server in servers:
        inject.lag_zookeeper_server(server, 0)


@_scenario()
async def connections_break_in_a_new_session(inject: FaultInjector, rng: random.Random) -> None:
    """A session ends, and the connection of the next one breaks while the broker registers, reads and claims."""
    broker = rng.choice(inject.brokers)
    if rng.random() < 0.7:
        former = inject.zookeeper_session(broker)
        inject.expire_session(broker)
        await inject.wait_until(lambda: inject.zookeeper_session(broker) != former, 3, look=0.001)
        # The broker registers in the first milliseconds of a session.
        await inject.sleep(rng.uniform(0, 0.01))
        inject.reset_zookeeper_connection(broker)
    else:
        inject.kill(broker)
        inject.start(broker)
    for _ in range(rng.randint(2, 12)):
        await inject.sleep(rng.choice((0.01, 0.1)) * rng.random())
        inject.reset_zookeeper_connection(broker)


@_scenario("power")
async def shutdown_beside_a_silent_machine(inject: FaultInjector, rng: random.Random) -> None:
    """In an ISR of two one machine loses power, and before its session ends the other broker shuts down.

    The stopping broker must stay in the ISR, because its only other member has lost records.
    """
    tp = _some_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER or len(_followers(inject, tp)) < 2:
        return
    leader = inject.leader(tp)
    laggard, follower = rng.sample(_followers(inject, tp), 2)
    inject.kill(laggard)
    await inject.wait_until(lambda: laggard not in inject.isr(tp), 4)
    await inject.sleep(rng.uniform(0.1, 0.8))
    silent, stopping = rng.sample((leader, follower), 2)
    inject.lose_power(silent)
    await inject.stop(stopping)
    await inject.sleep(rng.uniform(0.1, 1))
    for broker in (silent, stopping, laggard):
        inject.start(broker)
        await inject.sleep(rng.uniform(0, 1))


@_scenario()
async def all_brokers_at_once(inject: FaultInjector, rng: random.Random) -> None:
    """Every process is killed; the first one to restart was not in every ISR."""
    for broker in inject.brokers:
        inject.kill(broker)
    await inject.sleep(rng.uniform(0.1, 3))
    for broker in rng.sample(inject.brokers, len(inject.brokers)):
        inject.start(broker)
        await inject.sleep(rng.uniform(0, 2))


@_scenario()
async def last_of_the_isr_stops_first(inject: FaultInjector, rng: random.Random) -> None:
    """Brokers shut down one after the other; the last member of an ISR stays in it until it is back."""
    order = rng.sample(inject.brokers, len(inject.brokers))
    for broker in order:
        await inject.stop(broker)
        await inject.sleep(rng.uniform(0, 0.5))
    for broker in rng.sample(order, len(order)):
        inject.start(broker)
        await inject.sleep(rng.uniform(0, 1))


@_scenario("power")
async def coordinator_loses_power(inject: FaultInjector, rng: random.Random) -> None:
    """The machine of a group or transaction coordinator loses power with outstanding requests."""
    broker = _some_coordinator(inject, rng)
    if broker is None:
        return
    lost = inject.lose_power(broker)
    await inject.sleep(rng.uniform(0.5, 7) if lost else 0.1)
    inject.start(broker)


@_scenario()
async def coordinator_cut_off(inject: FaultInjector, rng: random.Random) -> None:
    """A coordinator answers by claims that it may have lost, while another broker takes over its groups."""
    broker = await _some_group_coordinator(inject, rng) if rng.random() < 0.5 else _some_coordinator(inject, rng)
    if broker is None:
        return
    if rng.random() < 0.5:
        inject.cut_zookeeper(broker)
        inject.reset_zookeeper_connection(broker)
    else:
        inject.pause(broker)
    await inject.sleep(rng.uniform(2, 9))
    inject.mend_zookeeper(broker)
    inject.resume(broker)


@_scenario()
async def coordinator_killed_at_its_work(inject: FaultInjector, rng: random.Random) -> None:
    """The coordinator of a transaction or a group dies, and its successor continues its work; twice."""
    for _ in range(2):
        broker = _some_coordinator(inject, rng)
        if broker is None:
            return
        inject.kill(broker)
        await inject.sleep(rng.uniform(0.2, 2))
        inject.start(broker)


@_scenario()
async def coordinator_forgotten_by_zookeeper(inject: FaultInjector, rng: random.Random) -> None:
    """A coordinator is cut off from ZooKeeper for longer than its session timeout, and its members reach it.

    It must give up its groups by itself, because another broker has claimed them.
    """
    broker = await _some_group_coordinator(inject, rng)
    if broker is None:
        return
    inject.cut_zookeeper(broker)
    if rng.random() < 0.7:
        # The reset tells the broker at once that it is cut off; otherwise it learns that by an unanswered ping.
        inject.reset_zookeeper_connection(broker)
    await inject.sleep(rng.uniform(6, 12))
    inject.mend_zookeeper(broker)


@_scenario()
async def coordinator_far_from_zookeeper(inject: FaultInjector, rng: random.Random) -> None:
    """A coordinator's writes are slow, so commits of a partition arrive while earlier ones are outstanding.

    The connection may break with several of them unanswered.
    """
    broker = await _some_group_coordinator(inject, rng)
    if broker is None:
        return
    inject.slow_zookeeper(broker, rng.uniform(0.05, 0.4))
    for _ in range(rng.randint(1, 3)):
        await inject.sleep(rng.uniform(0.3, 1.5))
        if rng.random() < 0.5:
            inject.reset_zookeeper_connection(broker)
    inject.unslow_zookeeper(broker)


@_scenario()
async def members_sleep_through_a_rebalance(inject: FaultInjector, rng: random.Random) -> None:
    """Members are paused during a rebalance and continue in the ended generation; others delay the next one."""
    members = [name for name in inject.clients() if "member" in name or "transformer" in name]
    sleepers = rng.sample(members, min(len(members), rng.randint(1, 2)))
    for member in sleepers:
        inject.pause_client(member)
        await inject.sleep(rng.uniform(0, 0.5))
    await inject.sleep(rng.uniform(2.5, 7))
    for member in sleepers:
        inject.resume_client(member)
        await inject.sleep(rng.uniform(0, 1))


@_scenario()
async def pipeline_sleeps_with_staged_offsets(inject: FaultInjector, rng: random.Random) -> None:
    """A pipeline is paused between its offsets and its commit; the next owner must wait for the transaction's end.

    KIP-447 and ``UNSTABLE_OFFSET_COMMIT`` prevent the duplicates of this case.
    """
    if not await inject.wait_until(lambda: bool(inject.staging_clients()), 4):
        return
    for client in inject.staging_clients():
        inject.pause_client(client)
    await inject.sleep(rng.uniform(2, 9))
    for client in inject.clients():
        inject.resume_client(client)


@_scenario()
async def leaders_move_while_a_coordinator_does_not_hear_of_it(inject: FaultInjector, rng: random.Random) -> None:
    """A coordinator sends markers to former leaders, which refuse them, and must repeat them to the new leaders."""
    broker, controller = _some_coordinator(inject, rng), inject.controller()
    if broker is None or controller is None:
        return
    inject.hold(controller, broker, one_way=True)
    server = inject.zookeeper_server_of(broker)
    if server is not None:
        inject.lag_zookeeper_server(server, rng.uniform(0.5, 2))
    for _ in range(rng.randint(1, 3)):
        leaders = {inject.leader(tp) for tp in inject.partitions()} - {NO_LEADER, broker, controller}
        if leaders:
            inject.expire_session(rng.choice(sorted(leaders)))
        await inject.sleep(rng.uniform(0.3, 1.5))
    if server is not None:
        inject.lag_zookeeper_server(server, 0)
    inject.release(controller, broker)


@_scenario("power")
async def power_lost_in_a_compaction(inject: FaultInjector, rng: random.Random) -> None:
    """A machine loses power while it replaces segments by a compacted one: either the old ones or the new one
    remain."""
    broker = rng.choice(inject.brokers)
    if await inject.compacts(broker, 5):
        await inject.sleep(rng.choice((0, 0.002)))
        inject.lose_power(broker)
        await inject.sleep(rng.uniform(0.1, 2))
    inject.start(broker)


@_scenario()
async def killed_in_a_swap(inject: FaultInjector, rng: random.Random) -> None:
    """A process is killed between two renames while it replaces segments by a compacted one.

    A start must find either the old segments or the new one (``.swap`` files of ``LocalLog.replaceSegments``).
    """
    for _ in range(rng.randint(2, 4)):
        # The smaller of two numbers, because many swaps rename few files.
        broker = await inject.kill_in_a_swap(min(rng.randrange(9), rng.randrange(9)), 8)
        if broker is not None:
            await inject.sleep(rng.uniform(0.05, 1))
            inject.start(broker)
