"""The smallest part of a list that still fails: delta debugging.

Answers to: nothing in Kafka; Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(items: Sequence[T], fails: Callable[[list[T]], bool], tries: int = 200) -> list[T]:
    """A sublist of ``items``, in order, that still fails and from which no single item can be removed.

    ``fails`` is called at most ``tries`` times; then the smallest list that failed so far is returned. ``items`` itself
    must fail.
    """
    smallest = list(items)
    pieces = 2
    while smallest and tries > 0:
        size = max(1, -(-len(smallest) // pieces))
        for start in range(0, len(smallest), size):
            rest = smallest[:start] + smallest[start + size :]
            tries -= 1
            if fails(rest):
                smallest = rest
                pieces = max(pieces - 1, 2)
                break
            if tries <= 0:
                break
        else:
            if size == 1:
                break
            pieces = min(len(smallest), pieces * 2)
    return smallest
