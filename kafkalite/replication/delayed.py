"""Requests that wait for replication.

Answers to: ``kafka.server.{DelayedProduce,DelayedFetch,DelayedDeleteRecords}``. Deterministic.
"""

from __future__ import annotations


class DelayedFetch:
    """A fetch that waits for bytes."""
