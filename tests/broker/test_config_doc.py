"""docs/configuration.md is what the code says."""

from __future__ import annotations

from pathlib import Path

from kafkalite.broker.config_doc import page

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == page(), "run: python -m kafkalite.broker.config_doc > docs/configuration.md"
