"""The ensemble: leaders, followers that lag, sessions, and what is in flight when one of them goes."""

from __future__ import annotations

import math

import pytest

from kafkalite.testing.ensemble import TransactionKind
from kafkalite.testing.ensemble.wire import JUTE_MAX_BUFFER, WriteRequest, frame_size
from kafkalite.zk.zk_client import Check, ConnectionLostError, Create, SessionState, SetData
from tests.support import PENDING, Started
from tests.testing.ensemble.fixtures import SESSION, TICK, EnsembleFixture

SUSPENDED, CONNECTED, EXPIRED = SessionState.SUSPENDED, SessionState.CONNECTED, SessionState.EXPIRED


def test_a_client_of_a_lagging_follower_reads_old_data_until_the_commit_arrives() -> None:
    fixture = EnsembleFixture()
    reader = fixture.connect(only=fixture.follower()).client
    writer = fixture.connect(only=fixture.leader()).client
    fixture.run(writer.create("/a", b"old"))
    fixture.ensemble.lag(fixture.follower(), 2.0)
    fixture.run(writer.set("/a", b"new"))
    assert fixture.run(writer.get("/a"))[0] == b"new"
    assert fixture.run(reader.get("/a"))[0] == b"old"
    fixture.clock.advance(2.0)
    assert fixture.run(reader.get("/a"))[0] == b"new"


def test_a_write_through_a_lagging_follower_is_answered_when_the_follower_has_it_and_reads_wait_for_it() -> None:
    fixture = EnsembleFixture()
    client = fixture.connect(only=fixture.follower()).client
    fixture.ensemble.lag(fixture.follower(), 1.0)
    write, read = Started(client.create("/a", b"1")), Started(client.get("/a"))
    fixture.clock.advance(0.5)
    assert fixture.ensemble.data("/a") == b"1"
    assert (write.value, read.value) == (PENDING, PENDING)
    fixture.clock.advance(1.0)
    assert write.value[0] == "/a" and read.value[0] == b"1"


def test_a_client_does_not_attach_to_a_server_that_has_seen_less_than_the_client() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect(only=fixture.leader())
    follower = fixture.follower()
    fixture.ensemble.lag(follower, math.inf)
    fixture.run(noted.client.create("/a", b"1"))
    fixture.ensemble.drop_connection(noted.client)
    fixture.clock.advance(0.01)
    fixture.reach(noted.client, follower)
    fixture.clock.advance(2.0)
    assert noted.client.state is SUSPENDED
    fixture.ensemble.lag(follower, 0.0)
    fixture.until(lambda: noted.client.state is CONNECTED, 3.0)
    assert noted.client.server == follower
    assert fixture.run(noted.client.get("/a"))[0] == b"1"
    assert noted.states == [CONNECTED, SUSPENDED, CONNECTED]


def test_a_client_that_is_cut_off_is_expired_at_a_tick_and_learns_of_it_when_it_is_back() -> None:
    fixture = EnsembleFixture()
    noted, other = fixture.connect(), fixture.connect()
    fixture.run(noted.client.create("/e", ephemeral=True))
    fixture.run(other.client.exists("/e", other.events.append))
    session, cut_at = noted.client.session, fixture.clock.monotonic()
    ended: list[float] = []
    fixture.ensemble.on_commit(lambda _: ended.append(fixture.clock.monotonic()))
    fixture.ensemble.cut(noted.client)
    fixture.clock.advance(20.0)
    assert len(ended) == 1 and fixture.committed[-1].kind is TransactionKind.CLOSE_SESSION
    assert [change.op.path for change in fixture.committed[-1].changes] == ["/e"]
    assert SESSION - TICK < ended[0] - cut_at < SESSION + 2 * TICK
    assert 0 <= ended[0] % TICK < 0.01, "sessions end at whole ticks"
    assert len(other.events) == 1
    assert noted.states == [CONNECTED, SUSPENDED], "the client cannot know"
    fixture.ensemble.heal(noted.client)
    fixture.clock.advance(2.0)
    assert noted.states == [CONNECTED, SUSPENDED, EXPIRED, CONNECTED] and noted.client.session != session


def test_an_idle_client_keeps_its_session_by_its_pings() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect(only=fixture.follower())
    fixture.clock.advance(100.0)
    assert noted.states == [CONNECTED]
    assert [entry.kind for entry in fixture.committed] == [TransactionKind.OPEN_SESSION]


def test_a_swallowed_answer_leaves_a_write_that_took_effect() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect()
    fixture.ensemble.cut(noted.client, requests=False)
    work = Started(noted.client.create("/a"))
    fixture.clock.advance(SESSION)
    assert "/a" in fixture.ensemble.paths() and isinstance(work.value, ConnectionLostError)


def test_a_held_request_takes_no_effect_once_the_session_went_on_over_another_server() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect(only=1)
    fixture.ensemble.cut(noted.client, servers=[1])
    work = Started(noted.client.create("/late"))
    fixture.until(lambda: noted.client.state is SUSPENDED, SESSION)
    assert isinstance(work.value, ConnectionLostError)
    fixture.ensemble.heal(noted.client, servers=[2])
    fixture.until(lambda: noted.client.state is CONNECTED, SESSION)
    assert noted.states == [CONNECTED, SUSPENDED, CONNECTED] and noted.client.server == 2
    fixture.ensemble.heal(noted.client)
    fixture.clock.advance(1.0)
    assert "/late" not in fixture.ensemble.paths()


def test_a_held_request_takes_effect_where_it_arrives_before_the_session_goes_on() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect(only=1)
    fixture.ensemble.cut(noted.client)
    work = Started(noted.client.create("/late"))
    fixture.until(lambda: noted.client.state is SUSPENDED, SESSION)
    assert isinstance(work.value, ConnectionLostError) and "/late" not in fixture.ensemble.paths()
    fixture.ensemble.heal(noted.client)
    fixture.clock.advance(1.0)
    assert "/late" in fixture.ensemble.paths() and noted.states == [CONNECTED, SUSPENDED, CONNECTED]


def test_a_held_request_of_an_expired_session_takes_no_effect() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect()
    fixture.ensemble.cut(noted.client)
    Started(noted.client.create("/late"))
    fixture.clock.advance(3 * SESSION)
    fixture.ensemble.heal(noted.client)
    fixture.clock.advance(2.0)
    assert "/late" not in fixture.ensemble.paths() and EXPIRED in noted.states


def test_clients_of_a_dead_server_keep_their_sessions_on_another() -> None:
    fixture = EnsembleFixture()
    number = fixture.follower()
    noted = fixture.connect(only=number)
    fixture.ensemble.heal(noted.client)
    session = noted.client.session
    fixture.run(noted.client.exists("/a", noted.events.append))
    fixture.ensemble.kill(number)
    fixture.clock.advance(2.0)
    assert noted.states == [CONNECTED, SUSPENDED, CONNECTED] and noted.client.session == session
    assert noted.client.server != number
    assert [event.type.value for event in noted.events] == ["lost"]
    fixture.run(noted.client.create("/while-it-is-down"))
    fixture.ensemble.restart(number)
    fixture.clock.advance(1.0)
    assert "/while-it-is-down" in fixture.ensemble.servers[number].tree.nodes


def test_no_write_while_there_is_no_leader_and_all_sessions_outlive_the_election() -> None:
    fixture = EnsembleFixture()
    noted = [fixture.connect() for _ in range(3)]
    sessions = [each.client.session for each in noted]
    first = fixture.leader()
    fixture.ensemble.kill(first)
    before = len(fixture.ensemble.log)
    fixture.clock.advance(0.15)
    assert all(each.client.state is SUSPENDED for each in noted) and fixture.ensemble.leader is None
    fixture.clock.advance(4.0)
    assert fixture.leader() != first and len(fixture.ensemble.log) == before
    assert [each.client.session for each in noted] == sessions
    assert fixture.run(noted[0].client.create("/a"))[1].czxid >> 32 == 2, "a new leader counts from a new epoch"


@pytest.mark.parametrize("kept", [True, False])
def test_a_multi_in_flight_at_the_loss_of_the_leader_is_kept_or_lost_as_a_whole(kept: bool) -> None:
    outcomes: dict[bool, int] = {}
    for seed in range(40):
        fixture = EnsembleFixture(seed)
        client = fixture.connect().client
        fixture.run(client.create("/a", b"0"))
        work = Started(client.multi([Check("/a", 0), SetData("/a", b"1"), Create("/b"), Create("/c")]))
        while not fixture.ensemble._proposals:
            fixture.clock.advance(0.0001)
        fixture.ensemble.depose()
        fixture.clock.advance(5.0)
        assert isinstance(work.value, ConnectionLostError)
        found = fixture.ensemble.data("/a"), fixture.ensemble.paths()
        assert found in [(b"1", ["/", "/a", "/b", "/c"]), (b"0", ["/", "/a"])]
        assert fixture.run(client.get("/a"))[0] == found[0]
        outcomes[found[0] == b"1"] = seed
    assert kept in outcomes, "no seed chose it"


def test_a_leader_that_is_cut_off_from_the_others_answers_reads_from_what_it_has_and_loses_its_writes() -> None:
    fixture = EnsembleFixture()
    old = fixture.leader()
    stale, other = fixture.connect(only=old), fixture.connect()
    fixture.run(stale.client.create("/a", b"old"))
    fixture.reach(other.client, fixture.follower())
    fixture.clock.advance(SESSION)
    fixture.ensemble.isolate(old)
    work = Started(stale.client.set("/a", b"lost"))
    fixture.until(lambda: fixture.ensemble.servers[old] is not fixture.ensemble.leader, 20.0)
    assert fixture.run(stale.client.get("/a"))[0] == b"old"
    fixture.until(lambda: other.client.state is CONNECTED, 10.0)
    assert fixture.run(other.client.set("/a", b"new")).version == 1
    fixture.until(lambda: work.value is not PENDING, 10.0)
    assert isinstance(work.value, ConnectionLostError) and stale.client.state is SUSPENDED
    fixture.ensemble.rejoin(old)
    fixture.until(lambda: stale.client.state is CONNECTED, 5.0)
    assert fixture.run(stale.client.get("/a"))[0] == b"new"
    trees = [sorted((path, node.data) for path, node in s.tree.nodes.items()) for s in fixture.ensemble.servers]
    assert trees[0] == trees[1] == trees[2]


def test_a_frozen_ensemble_does_not_answer_and_continues_after_the_thaw() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect()
    fixture.ensemble.freeze()
    work = Started(noted.client.create("/a"))
    fixture.clock.advance(1.0)
    assert work.value == PENDING and noted.states == [CONNECTED]
    fixture.ensemble.thaw()
    fixture.clock.advance(0.1)
    assert work.value[0] == "/a"
    fixture.ensemble.freeze()
    fixture.clock.advance(60.0)
    assert noted.states == [CONNECTED, SUSPENDED]
    fixture.ensemble.thaw()
    fixture.clock.advance(5.0)
    assert noted.client.state is CONNECTED


def test_without_a_majority_nothing_is_committed() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect(only=fixture.leader())
    for number in [s.number for s in fixture.ensemble.servers if s is not fixture.ensemble.leader]:
        fixture.ensemble.kill(number)
    work = Started(noted.client.create("/a"))
    fixture.clock.advance(5.0)
    assert isinstance(work.value, ConnectionLostError) and noted.client.state is SUSPENDED
    fixture.ensemble.restart(
        next(s.number for s in fixture.ensemble.servers if not s.serving and s.role.value == "down")
    )
    fixture.clock.advance(5.0)
    assert noted.client.state is CONNECTED


def test_an_oversized_request_costs_the_connection_and_what_is_outstanding(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = EnsembleFixture(servers=1)
    noted = fixture.connect()
    refused = fixture.run(noted.client.create("/a", b"x" * 1_000_000))
    assert "1000000 bytes, more than 1000000 that ZooKeeper takes" in str(refused)
    monkeypatch.setattr("kafkalite.testing.ensemble.client.MAX_PACKET", 1 << 30)
    fits = JUTE_MAX_BUFFER - frame_size(WriteRequest((Create("/b"),), multi=False))
    assert fixture.run(noted.client.create("/b", b"x" * fits))[0] == "/b"
    large, behind = Started(noted.client.create("/c", b"x" * (fits + 1))), Started(noted.client.create("/d"))
    fixture.clock.advance(1.0)
    assert isinstance(large.value, ConnectionLostError) and isinstance(behind.value, ConnectionLostError)
    assert fixture.ensemble.paths() == ["/", "/b"]
    assert noted.states == [CONNECTED, SUSPENDED, CONNECTED]


def test_the_committed_transactions_are_reported_with_paths_data_and_versions() -> None:
    fixture = EnsembleFixture()
    client = fixture.connect().client
    fixture.run(client.create("/q"))
    fixture.run(client.multi([Create("/q/n-", b"1", sequence=True), SetData("/q", b"2"), Check("/q", 1)]))
    fixture.run(client.create("/q"))
    last = fixture.committed[-1]
    assert last.session == client.session and last.kind is TransactionKind.WRITE and last.error is None
    assert [change.op for change in last.changes] == [
        Create("/q/n-0000000000", b"1"),
        SetData("/q", b"2"),
        Check("/q", 1),
    ]
    assert [change.stat.version for change in last.changes] == [0, 1, 1]
    zxids = [transaction.zxid for transaction in fixture.committed]
    assert zxids == sorted(set(zxids))


def test_one_seed_gives_one_history() -> None:
    def history(seed: int) -> list[object]:
        fixture = EnsembleFixture(seed)
        notes: list[object] = []
        clients = [fixture.connect() for _ in range(3)]

        def note(what: object) -> None:
            notes.append((fixture.clock.monotonic(), what))

        for noted in clients:
            noted.client.add_listener(note)
            for step in range(5):
                noted.client.exists(f"/{step}", note)
                noted.client.create(f"/{step}", ephemeral=True)
        fixture.ensemble.depose()
        fixture.clock.advance(10.0)
        fixture.ensemble.expire(clients[0].client.session)
        fixture.clock.advance(10.0)
        return notes + fixture.committed

    assert history(7) == history(7) != history(8)


@pytest.mark.parametrize("others_elect", [True, False])
def test_a_frozen_leader_is_replaced_once_the_others_have_given_it_up_and_decides_nothing_afterwards(
    others_elect: bool,
) -> None:
    fixture = EnsembleFixture()
    old = fixture.leader()
    noted = fixture.connect(only=fixture.follower())
    fixture.ensemble.freeze([old])
    # it has reached the leader's machine before anyone gave the leader up
    work = Started(noted.client.create("/a"))
    fixture.clock.advance(20.0 if others_elect else 1.0)
    assert (fixture.leader() != old) is others_elect
    fixture.ensemble.thaw([old])
    fixture.until(lambda: noted.client.state is CONNECTED and work.value is not PENDING, 5.0)
    fixture.clock.advance(3.0)
    assert fixture.ensemble.paths() == (["/"] if others_elect else ["/", "/a"])
    assert all(server.in_touch for server in fixture.ensemble.servers)


def test_a_follower_that_was_cut_off_during_an_election_drops_its_clients_when_it_is_back() -> None:
    fixture = EnsembleFixture()
    number = fixture.follower()
    noted = fixture.connect(only=number)
    fixture.ensemble.isolate(number)
    fixture.ensemble.depose()
    fixture.clock.advance(4.0)
    assert noted.states == [CONNECTED] and fixture.ensemble.leader is not None
    fixture.ensemble.rejoin(number)
    fixture.until(lambda: noted.states[1:2] == [SUSPENDED] and noted.client.state is CONNECTED, 5.0)
    assert fixture.run(noted.client.create("/a"))[0] == "/a"


def test_a_forwarded_request_that_reaches_the_leader_after_the_end_of_its_session_takes_no_effect() -> None:
    fixture = EnsembleFixture()
    number = fixture.follower()
    noted = fixture.connect(only=number)
    fixture.ensemble.isolate(number)
    noted.client.create("/late", ephemeral=True).addErrback(lambda _: None)
    fixture.clock.advance(0.1)
    fixture.ensemble.expire(noted.client.session)
    fixture.clock.advance(0.1)
    fixture.ensemble.rejoin(number)
    fixture.clock.advance(5.0)
    assert fixture.ensemble.paths() == ["/"] and noted.states == [CONNECTED, SUSPENDED, EXPIRED, CONNECTED]


def test_a_held_request_takes_no_effect_once_the_session_went_on_over_another_connection_to_the_same_server() -> None:
    fixture = EnsembleFixture(servers=1)
    noted = fixture.connect()
    former = noted.client._connection
    assert former is not None
    former.requests.hold()
    noted.client.create("/late").addErrback(lambda _: None)
    fixture.until(lambda: noted.states == [CONNECTED, SUSPENDED, CONNECTED], SESSION)
    former.requests.release()
    fixture.clock.advance(1.0)
    assert fixture.ensemble.paths() == ["/"]
