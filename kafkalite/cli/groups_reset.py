"""Plans of ``kafkalite groups --reset-offsets``: which partitions, to which offsets, and their CSV form.

Answers to: ``ConsumerGroupCommand.ConsumerGroupService.prepareOffsetsToReset`` and ``CsvUtils`` (3.9). Pure.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum

from kafkalite.cli.main import UsageError
from kafkalite.common.types import TopicPartition

Offsets = Mapping[TopicPartition, int]
_DURATION = re.compile(
    r"([-+])?P(?:([-+]?\d+)D)?(?:T(?=.)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:[.,]\d+)?)S)?)?", re.IGNORECASE
)


class To(Enum):
    """The targets of ``--reset-offsets``."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    OFFSET = "to-offset"
    SHIFT = "shift-by"
    DATETIME = "to-datetime"
    DURATION = "by-duration"
    CURRENT = "to-current"
    FILE = "from-file"


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of a plan. ``by_time``: offsets for the requested time, of partitions that have one."""

    committed: Offsets = field(default_factory=dict)
    earliest: Offsets = field(default_factory=dict)
    latest: Offsets = field(default_factory=dict)
    by_time: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """New offsets, and warnings for the user."""

    offsets: dict[TopicPartition, int]
    warnings: list[str]


def make_plan(
    to: To, partitions: Collection[TopicPartition], facts: Facts, value: int = 0, wanted: Offsets | None = None
) -> ResetPlan:
    """The new offset of each of ``partitions``.

    ``value``: of ``--to-offset`` and ``--shift-by``. ``wanted``: of ``--from-file``. An offset outside the log is moved
    to the log's nearer end. Raises ``ValueError`` for partitions that do not exist, or that cannot be shifted.
    """
    plan = ResetPlan({}, [])
    for tp in sorted(partitions):
        if tp not in facts.earliest or tp not in facts.latest:
            raise ValueError(f"{tp} does not exist, or has no leader")
        plan.offsets[tp] = _new_offset(to, tp, facts, plan.warnings, value, wanted or {})
    return plan


def _new_offset(to: To, tp: TopicPartition, facts: Facts, warnings: list[str], value: int, wanted: Offsets) -> int:
    latest = facts.latest[tp]
    if to is To.EARLIEST:
        return facts.earliest[tp]
    if to is To.LATEST:
        return latest
    if to is To.CURRENT:
        return facts.committed.get(tp, latest)
    if to in (To.DATETIME, To.DURATION):
        if tp not in facts.by_time:
            warnings.append(f"{tp} has no record of that time or later: its latest offset is taken")
        return facts.by_time.get(tp, latest)
    if to is To.SHIFT:
        if tp not in facts.committed:
            raise ValueError(f"Cannot shift offset for partition {tp} since there is no current committed offset")
        return _within(tp, facts.committed[tp] + value, facts, warnings)
    return _within(tp, wanted[tp] if to is To.FILE else value, facts, warnings)


def _within(tp: TopicPartition, offset: int, facts: Facts, warnings: list[str]) -> int:
    low, high = facts.earliest[tp], facts.latest[tp]
    near = min(max(offset, low), high)
    if near != offset:
        side = "higher than latest" if offset > high else "lower than earliest"
        warnings.append(f"New offset ({offset}) is {side} offset for topic partition {tp}. Value will be set to {near}")
    return near


def parse_scope(topics: Sequence[str]) -> dict[str, list[int] | None]:
    """``--topic t`` (all partitions: ``None``) and ``--topic t:0,2``. Raises :class:`UsageError`."""
    scope: dict[str, list[int] | None] = {}
    for text in topics:
        topic, colon, listed = text.partition(":")
        numbers = listed.split(",") if colon else []
        if not topic or not all(number.strip().isdigit() for number in numbers):
            raise UsageError(f"--topic {text!r}: expected a topic, or topic:0,1,2")
        known = scope.setdefault(topic, [])
        scope[topic] = None if known is None or not colon else known + [int(number) for number in numbers]
    return scope


def choose(scope: Mapping[str, list[int] | None], existing: Mapping[str, Collection[int]]) -> list[TopicPartition]:
    """The partitions of a scope. Raises ``ValueError`` if one does not exist."""
    chosen = []
    for topic, numbers in scope.items():
        if topic not in existing:
            raise ValueError(f"topic {topic} does not exist")
        missing = [number for number in numbers or [] if number not in existing[topic]]
        if missing:
            raise ValueError(f"partition {TopicPartition(topic, missing[0])} does not exist")
        chosen += [TopicPartition(topic, number) for number in (existing[topic] if numbers is None else numbers)]
    return sorted(set(chosen))


def parse_datetime(text: str) -> int:
    """``YYYY-MM-DDTHH:mm:SS.sss``, with a time zone or in UTC, as milliseconds. Raises :class:`UsageError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--to-datetime {text!r}: expected YYYY-MM-DDTHH:mm:SS.sss") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def parse_duration(text: str) -> int:
    """``PnDTnHnMnS`` as milliseconds. Raises :class:`UsageError`."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        raise UsageError(f"--by-duration {text!r}: expected PnDTnHnMnS, as in P1DT12H or PT30M")
    sign, days, hours, minutes, seconds = match.groups()
    total = timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=float((seconds or "0").replace(",", ".")),
    )
    return (-total if sign == "-" else total) // timedelta(milliseconds=1)


def to_csv(plans: Mapping[str, Offsets]) -> str:
    """``topic,partition,offset`` lines of one group; ``group,topic,partition,offset`` of several."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, offsets in plans.items():
        head = [group] if len(plans) > 1 else []
        writer.writerows([*head, tp.topic, tp.partition, offset] for tp, offset in offsets.items())
    return out.getvalue()


def from_csv(text: str, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """The inverse, for ``groups``. Raises ``ValueError`` naming the line that cannot be read."""
    plans: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        if len(row) == 3 and len(groups) == 1:
            row = [groups[0], *row]
        try:
            group, topic, partition, offset = row
            place = TopicPartition(topic, int(partition))
            if group in groups:
                plans.setdefault(group, {})[place] = int(offset)
        except ValueError:
            raise ValueError(
                f"line {number}: {','.join(row)!r}: expected topic,partition,offset (of one --group)"
                " or group,topic,partition,offset"
            ) from None
    return plans
