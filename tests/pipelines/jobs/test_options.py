"""The options of the jobs ``delays`` and ``activity``: as the docs and the examples have them, and what is refused."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from integration.blocks import blocks_of
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.jobs import activity, delays, examples
from kafkalite.pipelines.options import parse_table

JOBS = {"delays": delays.Options, "activity": activity.Options}


@pytest.mark.parametrize("job", JOBS)
def test_the_docs_and_the_example_say_the_defaults(job: str) -> None:
    (block,) = blocks_of("docs/pipelines.md", __file__, job)
    (example,) = (path.read_text() for path in examples() if path.name == f"{job}.toml")
    defaults = JOBS[job]() if job == "delays" else activity.Options(warehouse="warehouse")
    for text in (block.text, example):
        assert parse_table(JOBS[job], tomllib.loads(text)["options"], job) == defaults
    for key in re.findall(r"^# (\w+) =", example, re.MULTILINE):
        assert hasattr(defaults, key), "what stands in a comment can be said"


@pytest.mark.parametrize(
    ("job", "table", "why"),
    [
        ("delays", {"window": "a day"}, "here: 'a day' is no length of time such as '10 seconds' or '5 minutes'"),
        ("delays", {"late": "soon"}, "'soon' is no length of time"),
        ("delays", {"results": "final"}, "results = 'final' needs 'late'"),
        ("delays", {"results": "some"}, "'results' must be one of changes, final, not 'some'"),
        ("delays", {"flight": "x"}, "unknown key 'flight' (did you mean 'flights'?)"),
        ("activity", {"gap": "30"}, "'30' is no length of time"),
        ("activity", {"late": ""}, "'' is no length of time"),
        ("activity", {"malformed": "ignore"}, "'malformed' must be one of fail, skip, not 'ignore'"),
    ],
)
def test_invalid_options_are_refused(job: str, table: dict[str, Any], why: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_table(JOBS[job], table, "here")
    assert why in str(caught.value)
