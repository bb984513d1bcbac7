"""The values that the page shows, and the subscribers that hear of each change.

Answers to: nothing in Kafka. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from kafkalite.common.clock import Clock
from kafkalite.dashboard.entities import Value, entities_of, value_of
from kafkalite.dashboard.tree_mirror import Tree

DELAY = 0.05
"""Least seconds between two messages: the first change of a burst is told at once, those behind it together."""

Changes = Mapping[str, Value | None]
"""New values by the entity's key; ``None``: it is gone."""
Subscriber = Callable[[bytes], None]
"""Takes :data:`Changes` as JSON in one line."""


class LiveState:
    """All entities of a cluster. A value that comes out equal is not sent again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: dict[str, Value] = {}
        self._dirty: dict[str, None] = {}
        self._subscribers: list[Subscriber] = []
        self._tree: Tree | None = None
        self._sent = -DELAY

    @property
    def is_watched(self) -> bool:
        """Whether any page is open."""
        return bool(self._subscribers)

    def znode_changed(self, path: str, tree: Tree) -> None:
        """The znode at ``path`` was created, changed or deleted."""
        self._tree = tree
        if not self._dirty:
            self._clock.call_later(max(0.0, self._sent + DELAY - self._clock.monotonic()), self._send)
        self._dirty.update(dict.fromkeys(entities_of(path)))

    def message(self) -> bytes:
        """All values as JSON in one line."""
        return _message(self._values)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` with each change from now on; the result ends that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def topics(self) -> list[Value]:
        """The values of all topics."""
        return [value for key, value in self._values.items() if key.startswith("topic/")]

    def brokers(self) -> list[Value]:
        """The values of all brokers."""
        return [value for key, value in self._values.items() if key.startswith("broker/")]

    def _send(self) -> None:
        dirty, self._dirty = self._dirty, {}
        self._sent = self._clock.monotonic()
        tree = self._tree
        if tree is not None:
            self.put({key: value_of(key, tree) for key in dirty})

    def put(self, changes: Changes) -> None:
        """Set values, and tell the subscribers of those that differ."""
        news = {key: value for key, value in changes.items() if value != self._values.get(key)}
        if not news:
            return
        for key, value in news.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        message = _message(news)
        for subscriber in list(self._subscribers):
            subscriber(message)


def _message(changes: Changes) -> bytes:
    return json.dumps(changes, ensure_ascii=True, separators=(",", ":")).encode()
