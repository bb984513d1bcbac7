"""The members of a group: their order, the leader, static instances, the vote."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.group.membership import MemberMetadata, Membership


def member(member_id: str, *protocols: str, instance_id: str | None = None) -> MemberMetadata:
    named = tuple((name, name.encode()) for name in protocols or ("range",))
    return MemberMetadata(member_id, instance_id, "client", "/host", 10_000, 60_000, named)


def membership(*members: MemberMetadata) -> Membership:
    found = Membership()
    for each in members:
        found.add(each)
    return found


@pytest.mark.parametrize(
    ("votes", "chosen"),
    [
        ([("range",)], "range"),
        ([("range", "sticky"), ("sticky", "range")], "range"),
        ([("range", "sticky"), ("sticky", "range"), ("sticky", "range")], "sticky"),
        ([("range", "sticky"), ("sticky",)], "sticky"),
        ([("a", "b", "c"), ("c", "b"), ("c", "b", "a")], "c"),
        ([("a", "b", "c"), ("b", "c"), ("c", "b", "a")], "b"),
    ],
)
def test_the_vote(votes: list[tuple[str, ...]], chosen: str) -> None:
    members = membership(*(member(str(number), *names) for number, names in enumerate(votes)))
    assert members.select_protocol() == chosen


def test_a_protocol_must_be_supported_by_all_members() -> None:
    members = membership(member("a", "range", "sticky"), member("b", "sticky"))
    assert members.supports_any(["range", "sticky"])
    assert not members.supports_any(["range"])
    members.remove("b")
    assert members.supports_any(["range"])
    members.update(members["a"], (("other", b""),), 1, 2)
    assert not members.supports_any(["range", "sticky"]) and members.supports_any(["other"])


def test_a_protocol_named_twice_counts_once() -> None:
    members = membership(member("a", "range", "range"), member("b", "sticky", "range"))
    assert members.select_protocol() == "range"


def test_the_first_member_leads_and_after_it_the_second() -> None:
    members = membership(member("a"), member("b"), member("c"))
    assert members.leader == "a"
    members.remove("a")
    assert members.leader == "b"
    members.remove("c")
    assert members.leader == "b"
    members.remove("b")
    assert members.leader == ""


def test_a_leader_that_has_not_joined_is_replaced_by_one_that_has() -> None:
    members = membership(member("a"), member("b"), member("c"))
    assert not members.elect_joined_leader()
    members["c"].join = 1
    assert members.elect_joined_leader() and members.leader == "c"
    members["a"].join = 2
    assert members.elect_joined_leader() and members.leader == "c"


def test_a_static_member_keeps_place_and_leadership_under_another_id() -> None:
    static = member("s-1", instance_id="s")
    members = membership(static, member("b"))
    assert members.static_id("s") == "s-1"
    members.rename(static, "s-2")
    assert [each.member_id for each in members] == ["s-2", "b"]
    assert (members.leader, members.static_id("s"), "s-1" in members) == ("s-2", "s-2", False)
    members.remove("s-2")
    assert members.static_id("s") is None


def test_all_members_have_joined_when_each_waits_and_no_id_is_pending() -> None:
    members = membership(member("a"))
    found = [members.all_joined]
    members["a"].join = 1
    found.append(members.all_joined)
    members.pending["b"] = 5.0
    found.append(members.all_joined)
    members.remove("b")
    found.append(members.all_joined)
    assert found == [False, True, False, True]


def test_the_rebalance_timeout_is_the_longest_of_all_members() -> None:
    assert Membership().rebalance_timeout_ms == 0
    members = membership(member("a"), member("b"))
    members.update(members["b"], members["b"].protocols, 1, 90_000)
    assert members.rebalance_timeout_ms == 90_000


def test_a_member_without_a_common_protocol_cannot_vote() -> None:
    with pytest.raises(LookupError):
        member("a", "range").vote({"sticky"})
