"""Names of the files of a micro-batch."""

from __future__ import annotations

from kafkalite.pipelines.connect.sinks import final_names


def test_names_by_micro_batch() -> None:
    """Folders stay; what is none of Spark's data files is left where it is."""
    staged = [
        "_kafkalite/q/carrier=UA/part-00000-x.c000.snappy.parquet",
        "_kafkalite/q/part-00001-x.json",
        "_kafkalite/q/_SUCCESS",
        "_kafkalite/q/.part-00001-x.json.crc",
    ]
    assert final_names(staged, "_kafkalite/q", 12, "0123456789ab") == {
        staged[0]: "carrier=UA/part-000012-0000-01234567.c000.snappy.parquet",
        staged[1]: "part-000012-0001-01234567.json",
    }
