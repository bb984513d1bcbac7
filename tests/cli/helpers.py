"""Commands without a cluster: their flags parsed, their output caught, an administration client of canned answers."""

from __future__ import annotations

import argparse
from typing import Any

from kafkalite.cli.main import build_parser

WHERE = ["--bootstrap-server", "nowhere:1"]


def parse(command: str, *arguments: str) -> argparse.Namespace:
    """The arguments of ``kafkalite COMMAND``, with a bootstrap server."""
    return build_parser(command).parse_args([command, *arguments, *WHERE])


class Admin:
    """Answers each method of the library's admin client from ``answers``; ``calls`` says what was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        def answer(*arguments: Any, **_: Any) -> Any:
            self.calls.append((name, arguments[0] if arguments else None))
            return self.answers[name]

        return answer


def topic(name: str, *partitions: tuple[int, list[int], list[int]], topic_id: str = "") -> dict[str, Any]:
    """A topic as the library describes it; a partition is (leader, replicas, ISR)."""
    return {
        "name": name,
        "topic_id": topic_id or None,
        "error_code": 0,
        "is_internal": False,
        "partitions": [
            {"partition_index": index, "leader_id": leader, "replica_nodes": replicas, "isr_nodes": isr}
            for index, (leader, replicas, isr) in enumerate(partitions)
        ],
    }
