"""Options of the job ``suggestions``."""

from __future__ import annotations

import pytest

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.jobs.suggestions import Options
from kafkalite.pipelines.options import parse_table

TOPICS = {"ratings": "ratings", "suggestions": "suggestions"}


def test_what_need_not_be_said() -> None:
    assert parse_table(Options, TOPICS, "x.toml") == Options("ratings", "suggestions", like=4.0, history=30, count=10)


@pytest.mark.parametrize("name", ["history", "support", "count", "partitions"])
def test_numbers_that_mean_nothing(name: str) -> None:
    with pytest.raises(PipelineError, match=rf"x\.toml: '{name}' must be 1 or more"):
        parse_table(Options, {**TOPICS, name: 0}, "x.toml")
