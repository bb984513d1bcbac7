"""The kernels by themselves: compiled once, for one kind of arrays."""

from __future__ import annotations

from kafkalite.record.batch import iter_headers
from kafkalite.record.records import Record, encode_batch
from kafkalite.spark import kernels
from kafkalite.spark.decode import Decoder


def test_warming_up_compiles_what_decoding_uses() -> None:
    """Code for other types of arrays would be compiled in a task, where it costs seconds."""
    kernels.warm_up()
    ready = [kernels.read_records, kernels.count_headers, kernels.read_headers]
    before = [len(kernel.signatures) for kernel in ready]  # type: ignore[attr-defined]
    for codec in (0, 1, 2, 3, 4):
        data = memoryview(encode_batch([Record(0, 1, b"k", b"v", (("h", b"x"),))], codec=codec))
        (batch,) = Decoder("t", 0, include_headers=True).decode(data, iter_headers(data), None, 0, 1)
        assert batch.num_rows == 1
    assert [len(kernel.signatures) for kernel in ready] == before == [1, 1, 1]  # type: ignore[attr-defined]
