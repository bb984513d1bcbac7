"""Placement: all brokers compute the same answer, names spread evenly, and few names move."""

from collections import Counter

from kafkalite.coordinator.placement import preferred

NAMES = [f"name-{n}" for n in range(3000)]


def test_no_broker_is_preferred_of_none() -> None:
    assert preferred("group", []) is None


def test_the_order_of_brokers_does_not_matter() -> None:
    for name in NAMES[:50]:
        assert preferred(name, [3, 1, 2]) == preferred(name, [1, 2, 3])


def test_names_spread_evenly() -> None:
    for brokers in ([0, 1, 2], [1, 2, 3], [1, 1000, 100000], list(range(10))):
        counts = Counter(preferred(name, brokers) for name in NAMES)
        share = len(NAMES) / len(brokers)
        assert all(0.75 * share < counts[broker] < 1.25 * share for broker in brokers)


def test_only_names_of_a_dead_broker_move() -> None:
    for name in NAMES:
        before = preferred(name, [1, 2, 3])
        after = preferred(name, [1, 3])
        assert after == before if before != 2 else after in (1, 3)


def test_names_of_every_kind() -> None:
    assert preferred("", [1]) == 1
    assert preferred("g\udcff√", [-1, 7]) in (-1, 7)
