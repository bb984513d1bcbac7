"""``docs/cli.md`` can leave no flag of Kafka's tools without a reason, and can keep no reason that has become false."""

from __future__ import annotations

import pytest

from integration import cli_document
from integration.tool_flags import kept


def test_a_lacking_flag_without_a_reason_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli_document.LACKED, "topics", {})
    with pytest.raises(ValueError, match=r"topics: .*--delete-config"):
        cli_document.cli_document()


def test_a_reason_for_a_flag_that_the_command_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli_document.LACKED, "elect", {"--topic": "Not built."})
    with pytest.raises(ValueError, match=r"elect: .*--topic"):
        cli_document.cli_document()


def test_every_flag_of_kafkas_tools_is_on_the_page() -> None:
    text = cli_document.cli_document()
    assert [
        flag for flags in kept().values() for flag in flags if f"`{flag}`" not in text and flag != "--version"
    ] == []
