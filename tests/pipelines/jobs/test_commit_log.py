"""Options of the job ``commit-log``."""

from __future__ import annotations

import pytest

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.jobs.commit_log import Options, slot_name
from kafkalite.pipelines.options import parse_table


def test_either_half_or_both() -> None:
    table = {"topic": "fleet", "table": "fleet"}
    assert parse_table(Options, {**table, "database": "postgresql:///a"}, "x.toml").copy == ""
    assert parse_table(Options, {**table, "copy": "postgresql:///b"}, "x.toml").database == ""
    with pytest.raises(PipelineError, match=r"x\.toml: 'database' .* 'copy' .* or both"):
        parse_table(Options, table, "x.toml")


@pytest.mark.parametrize(
    ("slot", "pipeline", "wanted"),
    [("", "fleet", "kafkalite_fleet"), ("", "node-1.fleet", "kafkalite_node_1_fleet"), ("own", "fleet", "own")],
)
def test_names_of_slots(slot: str, pipeline: str, wanted: str) -> None:
    assert slot_name(slot, pipeline) == wanted


@pytest.mark.parametrize("slot", ["Large", "with-dash", "x" * 64])
def test_names_that_postgresql_would_refuse(slot: str) -> None:
    with pytest.raises(PipelineError, match="slot"):
        parse_table(Options, {"topic": "t", "table": "t", "database": "d", "slot": slot}, "x.toml")
