"""What ``make test`` leaves to ``make test-all`` is never all of a file."""

from __future__ import annotations

import pytest

from integration.conftest import TIERS


def test_every_file_has_a_test_of_make_test(request: pytest.FixtureRequest) -> None:
    """Of the files of this run; ``make test`` and ``make test-all`` collect all of them."""
    assert request.config.stash[TIERS] == []
