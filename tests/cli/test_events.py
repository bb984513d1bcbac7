"""``kafkalite events``: lines, and brokers that are added, come back or change places while they are followed."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterator
from types import SimpleNamespace

import pytest

from kafkalite.cli import events
from kafkalite.cli.event_pages import BrokerPage
from kafkalite.cli.events import json_line, text_line
from kafkalite.cli.main import UsageError, main
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.events import BrokerEvent, EventFrames

from .helpers import parse


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


class Cluster:
    """Brokers whose pages are lists instead of sockets, and their registrations."""

    def __init__(self) -> None:
        self.unknown: dict[int, str] = {}
        self.refusal: Exception | None = None
        self.registered: dict[int, str] = {}
        self.lives = 0
        self._pages: dict[str, EventFrames] = {}

    def find(self, silent: Collection[int] = ()) -> dict[int, str]:  # noqa: ARG002
        if self.refusal is not None:
            raise self.refusal
        return dict(self.registered)

    def start(self, broker: int, url: str, *texts: str, register: bool = True) -> None:
        """A new life of a broker, whose events have these texts."""
        self.lives += 1
        self._pages[url] = EventFrames(broker, self.lives, int(time.time() * 1000), ())
        self.tell(url, *texts)
        if register:
            self.registered[broker] = url

    def tell(self, url: str, *texts: str) -> None:
        """More events of the broker at ``url``."""
        page = self._pages[url]
        first = len(page.events) + 1
        more = tuple(
            BrokerEvent(page.broker, number, self.lives * 1000 + number, "session", text)
            for number, text in enumerate(texts, first)
        )
        self._pages[url] = EventFrames(page.broker, page.started_ms, page.now_ms, page.events + more)

    def kill(self, url: str) -> None:
        """The broker at ``url`` ends, and its registration with it."""
        self.registered.pop(self._pages.pop(url).broker, None)

    def fetch(self, url: str, after: int) -> bytes:
        if url not in self._pages:
            raise OSError("refused")
        return self._pages[url].encode(after)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    @contextlib.contextmanager
    def source(_: object) -> Iterator[Cluster]:
        yield made

    def fetch(page: BrokerPage, after: int) -> bytes:
        return made.fetch(page.url, after)

    monkeypatch.setattr(events, "page_source", source)
    monkeypatch.setattr(BrokerPage, "_fetch", fetch)
    return made


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Follows the cluster, with a step before each further question; returns the texts of the printed events."""

    def run(*steps: Callable[[], object]) -> list[str]:
        left = iter(steps)

        def sleep(_: float) -> None:
            step = next(left, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        # Not ``time.sleep`` itself, because threads of the client libraries call that, too.
        monkeypatch.setattr(events, "time", SimpleNamespace(sleep=sleep))
        assert main(["events", "--bootstrap-server", "nowhere:1", "--follow", "--json"]) == 130
        said = capsys.readouterr()
        return [json.loads(line)["text"] for line in said.out.splitlines()] + said.err.splitlines()

    return run


def test_a_broker_that_is_added_is_followed(cluster: Cluster, follow: Callable[..., list[str]]) -> None:
    cluster.start(1, "http://b1:1/events", "one")
    assert follow(
        lambda: cluster.start(2, "http://b2:1/events", "two"), lambda: cluster.tell("http://b2:1/events", "three")
    ) == ["one", "two", "three"]


def test_a_broker_that_comes_back_tells_its_new_life_once(cluster: Cluster, follow: Callable[..., list[str]]) -> None:
    old, new = "http://b1:1/events", "http://b1:2/events"
    cluster.start(1, old, "old 1", "old 2", "old 3")
    assert follow(
        lambda: None,
        lambda: cluster.kill(old),
        lambda: None,
        lambda: cluster.start(1, new, "new 1"),
        lambda: cluster.tell(new, "new 2"),
    ) == [
        *("old 1", "old 2", "old 3", "new 1", "new 2"),
        "kafkalite events: broker 1 does not answer at http://b1:1/events: refused",
    ]


def test_a_broker_that_comes_back_without_events_loses_none_of_the_next(
    cluster: Cluster, follow: Callable[..., list[str]]
) -> None:
    url = "http://b1:1/events"
    cluster.start(1, url, "old 1", "old 2", "old 3")
    assert follow(lambda: cluster.start(1, url), lambda: cluster.tell(url, "new 1")) == [
        *("old 1", "old 2", "old 3", "new 1")
    ]


def test_brokers_that_exchange_their_addresses_are_not_mistaken_for_each_other(
    cluster: Cluster, follow: Callable[..., list[str]]
) -> None:
    """Also where a registration is seen later than the page of the new life."""
    one, two = "http://b:1/events", "http://b:2/events"
    cluster.start(1, one, "old 1")
    cluster.start(2, two, "old 2")

    def exchange() -> None:
        cluster.start(1, two, "new 1", register=False)
        cluster.start(2, one, "new 2", register=False)

    def register() -> None:
        cluster.registered = {1: two, 2: one}

    assert follow(exchange, register, lambda: None) == [
        *("old 1", "old 2", "new 1", "new 2"),
        "kafkalite events: broker 1 does not answer at http://b:1/events: broker 2 answers there",
        "kafkalite events: broker 2 does not answer at http://b:2/events: broker 1 answers there",
    ]


def test_a_broker_that_is_not_registered_any_more_is_followed(
    cluster: Cluster, follow: Callable[..., list[str]]
) -> None:
    """Because a broker that lives without its session may tell why."""
    url = "http://b1:1/events"
    cluster.start(1, url, "registered")
    cluster.start(2, "http://b2:1/events")

    def expire() -> None:
        del cluster.registered[1]
        cluster.tell(url, "session expired")

    assert follow(expire) == ["registered", "session expired"]


def test_known_brokers_are_followed_while_no_new_ones_can_be_found(
    cluster: Cluster, follow: Callable[..., list[str]]
) -> None:
    url = "http://b1:1/events"
    cluster.start(1, url, "one")
    cluster.unknown = {2: "timed out"}

    def refuse(error: Exception | None, text: str) -> Callable[[], None]:
        def step() -> None:
            cluster.refusal = error
            cluster.tell(url, text)

        return step

    refused = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    steps = [(OSError("ZooKeeper is gone"), "two"), (OSError("still"), "three"), (None, "four"), (refused, "five")]
    assert follow(*(refuse(*each) for each in steps)) == [
        *("one", "two", "three", "four", "five"),
        "kafkalite events: the page of broker 2 cannot be looked up: timed out",
        "kafkalite events: the brokers of the cluster cannot be looked up: ZooKeeper is gone",
        "kafkalite events: the page of broker 2 cannot be looked up: timed out",
        "kafkalite events: the brokers of the cluster cannot be looked up: CLUSTER_AUTHORIZATION_FAILED",
    ]


@pytest.mark.parametrize("follows", [(), ("--follow",)])
def test_a_cluster_that_cannot_be_asked_is_an_error(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], follows: tuple[str, ...]
) -> None:
    command = ["events", "--zookeeper", "z:2181", *follows]
    assert main(command) == 1
    assert "no broker serves its events: set metrics.listener" in capsys.readouterr().err
    cluster.refusal = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert main(command) == 1
    assert capsys.readouterr().err == "kafkalite events: CLUSTER_AUTHORIZATION_FAILED\n"
