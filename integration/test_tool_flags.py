"""``kafka_tools.json``, from which ``docs/cli.md`` is made, has the flags of Kafka's own tools."""

from __future__ import annotations

from integration import tool_flags


def test_the_file_has_the_flags_that_kafkas_tools_print() -> None:
    assert tool_flags.kept() == tool_flags.ask(), "run `python -m integration.tool_flags`"
