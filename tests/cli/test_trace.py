"""``kafkalite trace``: flags, and the lines of a story."""

from __future__ import annotations

import pytest

from kafkalite.cli import trace
from kafkalite.cli.main import UsageError
from kafkalite.cli.trace import as_json, as_text
from kafkalite.cluster.record_story import CLIENT, RecordLeg, RecordStep, RecordStory

from .helpers import parse

STORY = RecordStory(
    (
        RecordStep(0.0, CLIENT, "sent", "sent the record"),
        RecordStep(0.5, 1, "received", "received the request"),
        RecordStep(200.7, 2, "replicated", "appended the record", 2),
        RecordStep(202.0, CLIENT, "answered", "has the answer"),
    ),
    (RecordLeg(0.5, CLIENT, "from the client to broker 1"), RecordLeg(201.5, 2, "from broker 1 to broker 2 and back")),
    202.0,
    {2: 0.3, 1: 0.2},
)


def test_a_story_has_a_line_for_each_step_the_total_and_the_longest_leg() -> None:
    assert as_text(STORY, "t-0", 7, 1) == [
        "t-0, offset 7",
        "      0.0 ms  client              sent the record",
        "      0.5 ms  broker 1 (leader)   received the request",
        "    200.7 ms  broker 2 (follower) appended the record",
        "    202.0 ms  client              has the answer",
        "total 202.0 ms, of which 201.5 ms from broker 1 to broker 2 and back",
        "clocks: broker 1 ± 0.2 ms, broker 2 ± 0.3 ms",
    ]


def test_json_names_the_longest_leg() -> None:
    found = as_json(STORY, "t-0", 7, 1)
    assert (found["offset"], found["leader"], found["uncertainty_ms"]) == (7, 1, {"1": 0.2, "2": 0.3})
    assert found["longest"] == {"ms": 201.5, "broker": 2, "text": "from broker 1 to broker 2 and back"}


def test_waits_are_bounded() -> None:
    args = parse("trace", "produce", "--bootstrap-server", "b:9092", "--topic", "t", "--timeout", "0")
    with pytest.raises(UsageError, match="--timeout"):
        trace.run(args)
