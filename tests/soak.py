"""The long forms of unit tests: ``KAFKALITE_SOAK=1 pytest -m soak tests`` runs them, and so does ``make soak``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, ParamSpec

import pytest

P = ParamSpec("P")
SOAK: Final = os.environ.get("KAFKALITE_SOAK", "") not in ("", "0")
"""Whether tests take their long form."""


def has_long_form(test: Callable[P, None]) -> Callable[P, None]:
    """Mark ``test`` as one that ``make soak`` runs, too."""
    return pytest.mark.soak(test) if SOAK else test
