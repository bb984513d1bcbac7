"""Plans of resets: partitions, targets, times, CSV."""

from __future__ import annotations

import pytest

from kafkalite.cli.groups_reset import (
    Facts,
    To,
    choose,
    from_csv,
    make_plan,
    parse_datetime,
    parse_duration,
    parse_scope,
    to_csv,
)
from kafkalite.cli.main import UsageError
from kafkalite.common.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
FACTS = Facts({T0: 50, U0: 7}, {T0: 10, T1: 0, U0: 0}, {T0: 100, T1: 20, U0: 9}, {T0: 60})


@pytest.mark.parametrize(
    ("to", "value", "offsets", "warnings"),
    [
        (To.EARLIEST, 0, {T0: 10, T1: 0}, 0),
        (To.LATEST, 0, {T0: 100, T1: 20}, 0),
        (To.CURRENT, 0, {T0: 50, T1: 20}, 0),
        (To.OFFSET, 15, {T0: 15, T1: 15}, 0),
        (To.OFFSET, 0, {T0: 10, T1: 0}, 1),
        (To.OFFSET, 1000, {T0: 100, T1: 20}, 2),
        (To.DATETIME, 0, {T0: 60, T1: 20}, 1),
        (To.DURATION, 0, {T0: 60, T1: 20}, 1),
        (To.FILE, 0, {T0: 33, T1: 20}, 1),
    ],
)
def test_plans(to: To, value: int, offsets: dict[TopicPartition, int], warnings: int) -> None:
    plan = make_plan(to, [T1, T0], FACTS, value, {T0: 33, T1: 44})
    assert plan.offsets == offsets and list(plan.offsets) == [T0, T1]
    assert len(plan.warnings) == warnings


@pytest.mark.parametrize(
    ("value", "offset", "warning"),
    [
        (7, 57, None),
        (-40, 10, None),
        (-41, 10, "New offset (9) is lower than earliest offset for topic partition t-0. Value will be set to 10"),
        (50, 100, None),
        (51, 100, "New offset (101) is higher than latest offset for topic partition t-0. Value will be set to 100"),
    ],
)
def test_shifts(value: int, offset: int, warning: str | None) -> None:
    plan = make_plan(To.SHIFT, [T0], FACTS, value)
    assert plan.offsets == {T0: offset} and plan.warnings == ([] if warning is None else [warning])


@pytest.mark.parametrize(
    ("to", "tp", "text"),
    [(To.SHIFT, T1, "no current committed offset"), (To.LATEST, TopicPartition("t", 9), "t-9 does not exist")],
)
def test_plans_that_cannot_be_made(to: To, tp: TopicPartition, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_plan(to, [tp], FACTS)


def test_scopes() -> None:
    existing = {"t": [0, 1], "u": [0], "v": []}
    assert parse_scope(["t", "u:0"]) == {"t": None, "u": [0]}
    assert parse_scope(["t:0", "t:1,0"]) == {"t": [0, 1, 0]}
    assert parse_scope(["t:0", "t"]) == parse_scope(["t", "t:0"]) == {"t": None}
    assert choose(parse_scope(["u:0", "t"]), existing) == [T0, T1, U0]
    assert choose(parse_scope(["t:1,1"]), existing) == [T1]
    for bad in ("", ":0", "t:", "t:x", "t:0,"):
        with pytest.raises(UsageError, match="expected a topic"):
            parse_scope([bad])
    for missing in ("x", "t:2"):
        with pytest.raises(ValueError, match="does not exist"):
            choose(parse_scope([missing]), existing)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-02T00:00:00.000", 86_400_000),
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T02:00:00.000+02:00", 0),
        ("1970-01-01T02:00:00.000+0200", 0),
        ("1970-01-01T00:00:00", 0),
    ],
)
def test_datetimes(text: str, milliseconds: int) -> None:
    assert parse_datetime(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P1D", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt10s", 10_000),
        ("-PT1S", -1000),
        ("PT-1M", -60_000),
        ("PT0S", 0),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P1.5D", "tomorrow"])
def test_times_that_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected PnDTnHnMnS"):
        parse_duration(text)
    with pytest.raises(UsageError, match="expected YYYY"):
        parse_datetime(text)


def test_csv_both_ways() -> None:
    one, two = {"g": {T0: 5, U0: 6}}, {"g": {T0: 5}, "a,b": {T1: 7}}
    assert to_csv(one) == "t,0,5\nu,0,6\n"
    assert to_csv(two) == 'g,t,0,5\n"a,b",t,1,7\n'
    assert from_csv(to_csv(one), ["g"]) == one
    assert from_csv(to_csv(two), list(two)) == two
    assert from_csv(to_csv(two) + "\n", ["g"]) == {"g": {T0: 5}}


@pytest.mark.parametrize(
    ("text", "groups"), [("t,0,5", ["g", "h"]), ("t,0", ["g"]), ("t,x,5", ["g"]), ("g,t,0,x", ["g"])]
)
def test_csv_that_cannot_be_read(text: str, groups: list[str]) -> None:
    with pytest.raises(ValueError, match=r"line 1: .*expected topic,partition,offset"):
        from_csv(text, groups)
