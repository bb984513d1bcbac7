"""The faults of a history: single ones, and scenarios composed of several that belong together.

Answers to: nothing in Kafka; the nemeses of Jepsen's tests. Deterministic: a scenario depends only on its own
random source and on the state of the cluster at that moment.

Uniform faults find little: most defects need two or three events in one order. Each composed scenario below is named
after the trap, or after the bug in a real system, that it came from. A scenario heals its own faults; scenarios run
concurrently, so each step of one must be harmless if another one was faster.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from kafkalite.common.types import NO_LEADER, TopicPartition
from kafkalite.testing.simulation.injector import FaultInjector

Play = Callable[[FaultInjector, random.Random], Awaitable[None]]


class Scenario(NamedTuple):
    """One kind of disorder. ``single``: one fault that comes and goes, with nothing composed."""

    play: Play
    single: bool
    needs: frozenset[str]
    """What must be switched on for it: ``power``, ``disk``, ``admin``."""


SCENARIOS: Final[dict[str, Scenario]] = {}
"""By name; plans name them, so that a failing history can be told and shrunk."""


def _scenario(*needs: str, single: bool = False) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        SCENARIOS[play.__name__] = Scenario(play, single, frozenset(needs))
        return play

    return register


def _some_partition(inject: FaultInjector, rng: random.Random) -> TopicPartition | None:
    partitions = inject.partitions()
    return rng.choice(partitions) if partitions else None


def _written_partition(inject: FaultInjector, rng: random.Random) -> TopicPartition | None:
    """One to which every history writes: a follower of a quiet partition never falls behind."""
    partitions = [tp for tp in inject.partitions() if tp.topic == "orders"]
    return rng.choice(partitions) if partitions else None


def _some_coordinator(inject: FaultInjector, rng: random.Random) -> int | None:
    coordinators = inject.coordinators()
    return rng.choice(coordinators) if coordinators else None


async def _some_group_coordinator(inject: FaultInjector, rng: random.Random) -> int | None:
    """One whose group has members, because nothing else shows what it answers."""
    await inject.wait_until(lambda: bool(inject.group_coordinators()), 4)
    coordinators = inject.group_coordinators()
    return rng.choice(coordinators) if coordinators else None


def _followers(inject: FaultInjector, tp: TopicPartition) -> list[int]:
    return [broker for broker in inject.replicas(tp) if broker != inject.leader(tp)]


# Single faults


@_scenario(single=True)
async def kill_a_broker(inject: FaultInjector, rng: random.Random) -> None:
    """``kill -9``: the page cache stays, the guardian ends the session."""
    broker = rng.choice(inject.brokers)
    inject.kill(broker)
    await inject.sleep(rng.uniform(0.05, 6))
    inject.start(broker)


@_scenario(single=True)
async def kill_a_leader(inject: FaultInjector, rng: random.Random) -> None:
    """The same for the broker that leads some partition."""
    tp = _some_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER:
        return
    broker = inject.leader(tp)
    inject.kill(broker)
    await inject.sleep(rng.uniform(0.05, 6))
    inject.start(broker)


@_scenario(single=True)
async def kill_the_controller(inject: FaultInjector, rng: random.Random) -> None:
    """The same for the controller."""
    broker = inject.controller()
    if broker is None:
        return
    inject.kill(broker)
    await inject.sleep(rng.uniform(0.05, 6))
    inject.start(broker)


@_scenario(single=True)
async def restart_a_broker(inject: FaultInjector, rng: random.Random) -> None:
    """A controlled shutdown and a start."""
    broker = rng.choice(inject.brokers)
    await inject.stop(broker)
    await inject.sleep(rng.uniform(0.1, 3))
    inject.start(broker)


@_scenario("power", single=True)
async def lose_power_of_a_machine(inject: FaultInjector, rng: random.Random) -> None:
    """Data that were not synced are lost; other machines notice only by silence."""
    broker = rng.choice(inject.brokers)
    if inject.lose_power(broker):
        await inject.sleep(rng.uniform(0.1, 8))
    inject.start(broker)


@_scenario(single=True)
async def pause_a_broker(inject: FaultInjector, rng: random.Random) -> None:
    """SIGSTOP: a long collection of garbage, a suspended machine."""
    broker = rng.choice(inject.brokers)
    inject.pause(broker)
    await inject.sleep(rng.uniform(0.2, 8))
    inject.resume(broker)


@_scenario(single=True)
async def pause_clients(inject: FaultInjector, rng: random.Random) -> None:
    """Clients sleep through rebalances, or through the ends of their transactions, and then go on as before."""
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
    """One broker carries out its clients' requests, but its answers do not arrive: the clients ask again."""
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
    """Nothing travels between two brokers; both reach ZooKeeper and the clients."""
    one, other = rng.sample(inject.brokers, 2)
    inject.hold(one, other)
    await inject.sleep(rng.uniform(0.3, 6))
    inject.release(one, other)


@_scenario(single=True)
async def cut_one_way(inject: FaultInjector, rng: random.Random) -> None:
    """What one broker says to another does not arrive; the answers do."""
    one, other = rng.sample(inject.brokers, 2)
    inject.hold(one, other, one_way=True)
    await inject.sleep(rng.uniform(0.3, 6))
    inject.release(one, other)


@_scenario(single=True)
async def isolate_a_broker(inject: FaultInjector, rng: random.Random) -> None:
    """One broker hears no other broker; clients and ZooKeeper still do."""
    broker = rng.choice(inject.brokers)
    others = [other for other in inject.brokers if other != broker]
    for other in others:
        inject.hold(broker, other)
    await inject.sleep(rng.uniform(0.3, 6))
    for other in others:
        inject.release(broker, other)


@_scenario(single=True)
async def reset_connections(inject: FaultInjector, rng: random.Random) -> None:
    """All connections of a broker break at once, clients' connections too; answers under way are lost."""
    for _ in range(rng.randint(1, 4)):
        inject.reset(rng.choice(inject.brokers))
        await inject.sleep(rng.uniform(0.05, 0.6))


@_scenario(single=True)
async def slow_network(inject: FaultInjector, rng: random.Random) -> None:
    """Everything of one broker takes long: batches arrive after timeouts, and are sent once more."""
    broker = rng.choice(inject.brokers)
    inject.slow(broker, rng.uniform(0.05, 0.8))
    await inject.sleep(rng.uniform(0.5, 5))
    inject.unslow(broker)


@_scenario(single=True)
async def slow_readers(inject: FaultInjector, rng: random.Random) -> None:
    """Clients read what one broker says in small pieces: answers wait in the broker, and grow old there."""
    broker = rng.choice(inject.brokers)
    inject.slow_readers(broker, rng.choice((64, 512, 4096)))
    await inject.sleep(rng.uniform(0.5, 5))
    inject.quick_readers(broker)


@_scenario(single=True)
async def cut_a_broker_off_zookeeper(inject: FaultInjector, rng: random.Random) -> None:
    """SUSPENDED, perhaps for longer than the session lives."""
    broker = rng.choice(inject.brokers)
    inject.cut_zookeeper(broker)
    await inject.sleep(rng.uniform(0.2, 8))
    inject.mend_zookeeper(broker)


@_scenario(single=True)
async def swallow_zookeepers_answers(inject: FaultInjector, rng: random.Random) -> None:
    """Writes take effect, and the broker does not learn of it."""
    broker = rng.choice(inject.brokers)
    inject.swallow_zookeeper_answers(broker)
    await inject.sleep(rng.uniform(0.2, 5))
    inject.mend_zookeeper(broker)


@_scenario(single=True)
async def reset_zookeeper_connections(inject: FaultInjector, rng: random.Random) -> None:
    """A broker's connection to ZooKeeper breaks several times, with reads, writes and watches under way."""
    broker = rng.choice(inject.brokers)
    for _ in range(rng.randint(1, 5)):
        inject.reset_zookeeper_connection(broker)
        await inject.sleep(rng.choice((0.02, 0.2, 1)) * rng.uniform(0.2, 1))


@_scenario(single=True)
async def expire_a_session(inject: FaultInjector, rng: random.Random) -> None:
    """ZooKeeper expires the session of a healthy broker, with its requests in progress."""
    inject.expire_session(rng.choice(inject.brokers))


@_scenario(single=True)
async def kill_a_zookeeper_server(inject: FaultInjector, rng: random.Random) -> None:
    """Its clients are suspended and find another server; where it led, nothing is written until another leads."""
    server = rng.randrange(inject.zookeeper_servers)
    inject.kill_zookeeper_server(server)
    await inject.sleep(rng.uniform(0.3, 5))
    inject.start_zookeeper_server(server)


@_scenario(single=True)
async def lag_a_zookeeper_server(inject: FaultInjector, rng: random.Random) -> None:
    """The brokers that are connected to one server read what was true some time ago."""
    server = rng.randrange(inject.zookeeper_servers)
    inject.lag_zookeeper_server(server, rng.uniform(0.1, 2))
    await inject.sleep(rng.uniform(1, 6))
    inject.lag_zookeeper_server(server, 0)


@_scenario("disk", single=True)
async def fill_a_disk(inject: FaultInjector, rng: random.Random) -> None:
    """No space is left for a while; work is refused, nothing is lost, the directory stays."""
    broker = rng.choice(inject.brokers)
    inject.fill_disk(broker, rng.randint(0, 4000))
    await inject.sleep(rng.uniform(0.5, 4))
    inject.free_disk(broker)


@_scenario("disk", single=True)
async def break_a_disk(inject: FaultInjector, rng: random.Random) -> None:
    """An I/O error takes the directory offline; the disk is mended, and the process started anew."""
    broker = rng.choice(inject.brokers)
    inject.break_disk(broker, rng.choice(("write", "fsync", "read")), rng.randint(0, 20))
    await inject.sleep(rng.uniform(1, 5))
    inject.mend_disk(broker)
    inject.kill(broker)
    await inject.sleep(rng.uniform(0.1, 1))
    inject.start(broker)


@_scenario("disk", single=True)
async def disk_reads_a_wrong_bit(inject: FaultInjector, rng: random.Random) -> None:
    """A bad cable or controller: readers, followers and the cleaner refuse the batch by its CRC, until it is mended."""
    broker = rng.choice(inject.brokers)
    if inject.flip_a_bit(broker, rng):
        await inject.sleep(rng.uniform(0.5, 4))
        inject.mend_bits(broker)


# Composed pieces


@_scenario()
async def laggard_then_the_rest_dies(inject: FaultInjector, rng: random.Random) -> None:
    """One follower falls out of the ISR, then all the others die: the one that is left must not lead.

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
    """The leader shrinks the ISR and does not learn whether it was written; then the others die.

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
    """The ISR grows, the leader does not learn of it, and the new member falls behind at once.

    The member counts for the high watermark as soon as the write is under way, and until it is known not to hold.
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
    # The leader learns of the shrinking: with that write under way it would begin no other.
    await inject.sleep(rng.uniform(0.1, 0.3))
    inject.slow_zookeeper(leader, rng.uniform(0.1, 0.3))
    inject.release(laggard, leader)
    await inject.wait_until(lambda: laggard in inject.isr(tp), 3)
    inject.hold(laggard, leader)
    # With its connection the leader loses the answer, which is on its way.
    inject.reset_zookeeper_connection(leader)
    await inject.sleep(rng.uniform(0.5, 2))
    inject.unslow_zookeeper(leader)
    if rng.random() < 0.5:
        inject.kill(leader)
    inject.release(laggard, leader)
    await inject.sleep(rng.uniform(0.5, 2))
    inject.start(leader)


@_scenario()
async def laggard_meets_a_fresh_leader(inject: FaultInjector, rng: random.Random) -> None:
    """A follower that was out of the ISR fetches from a leader that has not heard how far the former one was.

    It may join only with all that the leader had when its epoch began (KAFKA-7128).
    """
    tp = _written_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER or len(_followers(inject, tp)) < 2:
        return
    leader = inject.leader(tp)
    laggard, heir = rng.sample(_followers(inject, tp), 2)
    inject.hold(laggard, leader)
    inject.slow_zookeeper(leader, rng.uniform(0.1, 0.3))
    if await inject.wait_until(lambda: laggard not in inject.isr(tp), 6):
        # The high watermark moves once the leader knows that the ISR is smaller; its heir does not hear of that.
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
    """The answer that tells a follower the high watermark comes when it has another leader epoch, and is dropped.

    Nothing more is written, so the leader has to tell it once more (seed 23 of the first histories).
    """
    # Producers that begin later would tell the follower.
    await inject.sleep(rng.uniform(1, 2.5))
    controller = inject.controller()
    # The controller's request has to overtake the answer, and its session to go on.
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
        # The poll ends, so that no request waits at the leader which it would refuse for its epoch.
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
    """No follower fetches, for longer than the ISR may wait: the leader stays alone in it, and refuses records."""
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
    """On a slow disk a former leader is truncated and appended to before it hears that its last flush is done.

    The flush says nothing of what was written after the truncation.
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
    """A leader that no follower reaches goes on serving; its followers elect, restart, and must not be truncated to it.

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
    """A leader keeps a tail that no follower has, and two elections follow before it is back.

    Recovery that moves leader epochs then lets the replicas diverge (defect 4 of the first histories).
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
    """The controller decides, and its requests arrive seconds later, when they are no longer true."""
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
    """A leader sleeps longer than its session with produces and fetches in its buffers, and wakes as a zombie."""
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
    """A controller sleeps through its successor's election and wakes in the middle of an event: split brain."""
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
    """Machines lose power and are back before their sessions end, one after the other has caught up."""
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
    """Every machine loses power in turn, each when the one before holds again all that was acknowledged."""
    for broker in rng.sample(inject.brokers, len(inject.brokers)):
        await inject.wait_until(inject.power_may_fail, 10)
        if inject.lose_power(broker):
            await inject.sleep(rng.uniform(0.05, 4))
            inject.start(broker)


@_scenario("power")
async def power_after_an_unclean_start(inject: FaultInjector, rng: random.Random) -> None:
    """Killed, started, checkpointed, and then the power goes: what was read at the start was never synced.

    A recovery point at the log's end after an unclean start is a lie (defect 1 of the first histories).
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
    """A leader with a tail of its own is truncated as a follower, is appended to, and loses power.

    A checkpointed recovery point above the truncated end hides a hole (defect 2 of the first histories).
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
    """A machine loses power and is back while the controller is suspended or there is none.

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
    """While the controller is suspended a follower loses power and is back, and the leader shrinks another one out.

    The state is then younger than the registration that would tell (defect 7 of the first histories).
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
    """A slow controller finds a leader that came back without its tail, and a follower that has all of it gone.

    Handled in one plan the shortened log leads (defect 6 of the first histories).
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
    """A broker is back before its former znode is gone, waits for it, and loses the new session in that wait.

    A leader bound to the wrong session can never change an ISR (defect 5 of the first histories): the others restart,
    so that this broker leads, and has to take them back.
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
    """A fetch of a follower arrives at the leader after that follower lost power and came back shorter.

    It must not count as progress of the present follower (KIP-903 fences by broker epoch).
    """
    tp = _written_partition(inject, rng)
    if tp is None or inject.leader(tp) == NO_LEADER or not _followers(inject, tp):
        return
    leader, follower = inject.leader(tp), rng.choice(_followers(inject, tp))

    def asks_for_more() -> bool:
        """Whether the follower has all, so that it could join the ISR, and the leader does not know."""
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
        # Nothing more is written, and the leader takes the follower out by itself, within the same leader epoch.
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
    """ZooKeeper's leader dies while the controller writes elections; each multi holds whole or not at all."""
    victim = rng.choice(inject.brokers)
    inject.kill(victim)
    await inject.sleep(rng.uniform(0, 0.05))
    server = inject.zookeeper_leader()
    inject.kill_zookeeper_server(server)
    await inject.sleep(rng.uniform(0.5, 4))
    inject.start_zookeeper_server(server)
    inject.start(victim)


@_scenario()
async def controller_moves_in_a_storm(inject: FaultInjector, rng: random.Random) -> None:
    """Several controllers in a second, each with half of its work done."""
    for _ in range(rng.randint(2, 4)):
        controller = inject.controller()
        if controller is not None:
            inject.expire_session(controller)
        await inject.sleep(rng.uniform(0.02, 0.5))


@_scenario()
async def former_controller_with_work_under_way(inject: FaultInjector, rng: random.Random) -> None:
    """An operator deletes ``/controller`` while the controller elects; its session goes on, and its writes come late.

    Only the epoch of the claim fences it then (Kafka checks ``/controller_epoch`` in each write since KAFKA-6082).
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
    # The controller writes when six messages have gone to and fro; its successor, which is near, claims meanwhile.
    await inject.sleep(rng.uniform(0, 6 * distance))
    inject.depose_controller()
    await inject.wait_until(lambda: inject.controller() not in (controller, None), 2)
    await inject.sleep(rng.uniform(0, 0.5))
    inject.start(victim)
    await inject.sleep(rng.uniform(0, 1))
    inject.unslow_zookeeper(controller)


@_scenario()
async def bounce_before_the_controller_looks(inject: FaultInjector, rng: random.Random) -> None:
    """A broker is gone and back between two looks of a controller that is far away from ZooKeeper, or suspended.

    The controller tells it by the czxid of the registration alone (KAFKA-7235's broker epochs).
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
    """Every server of ZooKeeper lags by a time of its own while leaders, ISRs and controllers change.

    A broker then reads states that are older than what the controller has told it, and a new controller or coordinator
    must not decide by what it read before its claim (ZooKeeper's reads are not linearizable across sessions).
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
    """Of an ISR of two one machine loses power, and before its session ends the other broker stops in order.

    Were the one that stops taken out of the ISR, the one that lost records would be its only member.
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
    """Every process is killed; the one that comes back first was not in every ISR."""
    for broker in inject.brokers:
        inject.kill(broker)
    await inject.sleep(rng.uniform(0.1, 3))
    for broker in rng.sample(inject.brokers, len(inject.brokers)):
        inject.start(broker)
        await inject.sleep(rng.uniform(0, 2))


@_scenario()
async def last_of_the_isr_stops_first(inject: FaultInjector, rng: random.Random) -> None:
    """Brokers stop in order, one after the other; who is left in the ISR stays there until it is back."""
    order = rng.sample(inject.brokers, len(inject.brokers))
    for broker in order:
        await inject.stop(broker)
        await inject.sleep(rng.uniform(0, 0.5))
    for broker in rng.sample(order, len(order)):
        inject.start(broker)
        await inject.sleep(rng.uniform(0, 1))


@_scenario("power")
async def coordinator_loses_power(inject: FaultInjector, rng: random.Random) -> None:
    """The machine that coordinates a group or a transaction goes silent with requests under way."""
    broker = _some_coordinator(inject, rng)
    if broker is None:
        return
    lost = inject.lose_power(broker)
    await inject.sleep(rng.uniform(0.5, 7) if lost else 0.1)
    inject.start(broker)


@_scenario()
async def coordinator_cut_off(inject: FaultInjector, rng: random.Random) -> None:
    """A coordinator answers from claims that it may have lost, while another broker takes its groups over."""
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
    """The coordinator of a transaction or a group dies, and its successor goes on where it stopped; twice."""
    for _ in range(2):
        broker = _some_coordinator(inject, rng)
        if broker is None:
            return
        inject.kill(broker)
        await inject.sleep(rng.uniform(0.2, 2))
        inject.start(broker)


@_scenario()
async def coordinator_forgotten_by_zookeeper(inject: FaultInjector, rng: random.Random) -> None:
    """A coordinator does not hear of ZooKeeper for longer than its session lives, and its members still reach it.

    It has to give its groups up by itself, because another broker has them by then.
    """
    broker = await _some_group_coordinator(inject, rng)
    if broker is None:
        return
    inject.cut_zookeeper(broker)
    if rng.random() < 0.7:
        # It knows at once that it is cut off, and not only when a ping was not answered.
        inject.reset_zookeeper_connection(broker)
    await inject.sleep(rng.uniform(6, 12))
    inject.mend_zookeeper(broker)


@_scenario()
async def coordinator_far_from_zookeeper(inject: FaultInjector, rng: random.Random) -> None:
    """Writes of a coordinator take long: commits of one partition come while earlier ones are under way.

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
    """Members wake up in a generation that is over and go on as if it were theirs; another one is slow to come."""
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
    """A pipeline sleeps between its offsets and its commit: its partitions go to another, which must wait for the end.

    From the duplicates that KIP-447 and ``UNSTABLE_OFFSET_COMMIT`` are against.
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
    """Markers go to brokers that lead no more: they are refused, and have to be sent again to those that do."""
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
    """A machine loses power while it puts a compacted segment in the place of others: it is there, or they are."""
    broker = rng.choice(inject.brokers)
    if await inject.compacts(broker, 5):
        await inject.sleep(rng.choice((0, 0.002)))
        inject.lose_power(broker)
        await inject.sleep(rng.uniform(0.1, 2))
    inject.start(broker)


@_scenario()
async def killed_in_a_swap(inject: FaultInjector, rng: random.Random) -> None:
    """A process is killed between two renames, while a compacted segment takes the place of others.

    ``LocalLog.replaceSegments`` of Kafka has ``.swap`` files for it: a start finds the old segments, or the new one.
    """
    for _ in range(rng.randint(2, 4)):
        # The fewer files a swap has, the earlier it is over.
        broker = await inject.kill_in_a_swap(min(rng.randrange(9), rng.randrange(9)), 8)
        if broker is not None:
            await inject.sleep(rng.uniform(0.05, 1))
            inject.start(broker)
