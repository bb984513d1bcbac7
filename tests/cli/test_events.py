"""``kafkalite events``: addresses, lines, and brokers that come back."""

from __future__ import annotations

import json

import pytest

from kafkalite.cli import events
from kafkalite.cli.events import BrokerPage, PageAccess, events_address, json_line, page_access, show, text_line
from kafkalite.cli.main import UsageError
from kafkalite.common.events import BrokerEvent, EventFrames

from .helpers import parse


@pytest.mark.parametrize(
    ("listener", "address"),
    [
        ("http://127.0.0.1:9404", "http://127.0.0.1:9404/events"),
        ("http://0.0.0.0:9404/", "http://b1:9404/events"),
        ("http://[::1]:9404", "http://[::1]:9404/events"),
        ("https://[::]:9404", "https://b1:9404/events"),
    ],
)
def test_the_address_of_a_page(listener: str, address: str) -> None:
    assert events_address(listener, "b1") == address


def test_brokers_or_zookeeper_are_asked_not_both() -> None:
    args = parse("events", "--zookeeper", "z:2181")
    with pytest.raises(UsageError, match="one of"):
        events.run(args)


def test_a_line_has_the_time_of_this_machine_and_what_orders_the_event() -> None:
    event = BrokerEvent(
        2, 5, 1_700_000_002_000, "controller", "broker 2 is the controller", controller_epoch=3, zxid=80
    )
    line = text_line(event, 2000)
    assert line.endswith("broker 2  controller      broker 2 is the controller (controller epoch 3, zxid 80)")
    assert line == text_line(
        BrokerEvent(2, 5, 1_700_000_000_000, "controller", event.text, controller_epoch=3, zxid=80), 0
    )
    assert json.loads(json_line(event))["zxid"] == 80


class FakePage(BrokerPage):
    """Answers from a list instead of a socket."""

    answers: list[EventFrames | OSError]

    def _get(self, after: int) -> EventFrames:
        found = self.answers.pop(0)
        if isinstance(found, OSError):
            raise found
        return EventFrames(
            found.broker, found.started_ms, 0, tuple(each for each in found.events if each.sequence > after)
        )


def test_events_of_a_broker_that_restarted_are_asked_for_from_the_beginning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = EventFrames(
        1, 10, 0, tuple(BrokerEvent(1, number, number, "session", f"old {number}") for number in (1, 2, 3))
    )
    second = EventFrames(1, 20, 0, (BrokerEvent(1, 1, 50, "session", "new 1"),))
    page = FakePage(1, "http://b1:1/events", PageAccess())
    page.answers = [first, first, OSError("refused"), OSError("refused"), second, second]
    pages = {1: page}
    assert [show(pages, set(), as_json=True) for _ in range(5)] == [True, True, False, False, True]
    said = capsys.readouterr()
    assert [json.loads(line)["text"] for line in said.out.splitlines()] == ["old 1", "old 2", "old 3", "new 1"]
    assert said.err.count("broker 1 does not answer") == 1


def test_a_user_of_the_properties_logs_in_at_the_page() -> None:
    assert page_access({"sasl.username": "ann", "sasl.password": "s:1"}).headers == {
        "Authorization": "Basic YW5uOnM6MQ=="
    }
    assert page_access({}).headers == {}
