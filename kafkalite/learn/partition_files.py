"""The files of one replica of a partition, as a lab looks at them: segments, batches, records.

Answers to: ``kafka.tools.DumpLogSegments`` in purpose. Blocking: files of a broker that may be writing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kafkalite.record.batch import BatchHeader, iter_headers
from kafkalite.record.records import Record, iter_records


class PartitionFiles:
    """The partition's folder ``path`` in the log directory of a broker."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def segments(self) -> list[Path]:
        """The ``.log`` files, in the order of their base offsets."""
        return sorted(self.path.glob("*.log"))

    def batches(self) -> list[BatchHeader]:
        """Headers of all batches, control batches too."""
        return [header for _, _, header in self._walk()]

    def records(self) -> list[Record]:
        """All records but those of control batches, in the order of offsets."""
        return [
            record
            for data, position, header in self._walk()
            if not header.is_control
            for record in iter_records(data, header, position)
        ]

    def end_offset(self) -> int:
        """The log end offset; 0 without records."""
        batches = self.batches()
        return batches[-1].next_offset if batches else 0

    def _walk(self) -> Iterator[tuple[bytes, int, BatchHeader]]:
        for data in self._segment_data():
            # The broker may be in the middle of an append.
            for position, header in iter_headers(data, allow_partial_tail=True):
                yield data, position, header

    def _segment_data(self) -> list[bytes]:
        while True:
            try:
                return [segment.read_bytes() for segment in self.segments()]
            except FileNotFoundError:
                # Retention or compaction took a segment away after the folder was listed, so list it again.
                continue
