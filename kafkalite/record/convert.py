"""Conversion between message formats, for clients older than 0.11.

Answers to: ``org.apache.kafka.common.record.RecordsUtil`` and the converting half of ``LogValidator``. Pure.
"""

from __future__ import annotations

from kafkalite.common.types import Buffer


def up_convert(buf: Buffer) -> bytes:
    """Messages of magic 0/1 as magic-2 batches with the same offsets."""
    raise NotImplementedError


def down_convert(buf: Buffer, to_magic: int, first_offset: int) -> bytes:
    """Batches as messages of ``to_magic`` (0 or 1), for a reader that asked from ``first_offset`` on."""
    raise NotImplementedError
