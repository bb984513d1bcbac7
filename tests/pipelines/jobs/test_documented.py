"""The files that ``docs/pipelines.md`` and the examples show for these jobs are good ones."""

from __future__ import annotations

import pytest

from integration.blocks import blocks_of
from kafkalite.pipelines.jobs import commit_log, examples, suggestions
from kafkalite.pipelines.options import parse_table
from kafkalite.pipelines.pipeline import Pipeline, parse

OPTIONS = {"commit-log": commit_log.Options, "suggestions": suggestions.Options}


def shown() -> list[Pipeline]:
    """The pipelines of the docs and of the examples that have one of these jobs."""
    texts = [(block.text, "pipelines.md") for block in blocks_of("docs/pipelines.md", __file__)]
    texts += [(file.read_text(), file.name) for file in examples()]
    return [
        parse(text, name, {}) for text, name in texts if any(f'\njob = "{job}"\n' in f"\n{text}" for job in OPTIONS)
    ]


@pytest.mark.parametrize("pipeline", shown(), ids=lambda pipeline: f"{pipeline.where}-{pipeline.job}")
def test_they_are_read(pipeline: Pipeline) -> None:
    assert parse_table(OPTIONS[pipeline.job], pipeline.options, pipeline.where)


def test_each_is_shown_twice() -> None:
    assert sorted((each.job, each.where) for each in shown()) == [
        ("commit-log", "commit-log.toml"),
        ("commit-log", "pipelines.md"),
        ("suggestions", "pipelines.md"),
        ("suggestions", "suggestions.toml"),
    ]
