"""The options of the job *metrics*."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from integration.blocks import blocks_of
from kafkalite.pipelines import jobs
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.jobs.alert_rules import AlertRule
from kafkalite.pipelines.jobs.metrics import Options
from kafkalite.pipelines.options import parse_table
from kafkalite.pipelines.runner import load_job, read_pipeline

EXAMPLES = Path(jobs.__file__).parents[1] / "examples"

RULE = {"name": "memory", "metric": "resident_bytes", "comparison": ">", "threshold": 5}


def test_rules_are_tables() -> None:
    options = parse_table(Options, {"rules": [RULE, {**RULE, "name": "x", "rate": True, "process": "b-*"}]}, "here")
    second = AlertRule("x", "resident_bytes", ">", 5, rate=True, process="b-*")
    assert options.rules == (AlertRule("memory", "resident_bytes", ">", 5), second)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"rules": [RULE, RULE]}, "two rules are called 'memory'"),
        ({"rules": [{**RULE, "comparison": "="}]}, "'comparison' must be one of >, >=, <, <=, not '='"),
        ({"rules": [{**RULE, "lasting": "long"}]}, "'long' is no length of time"),
        ({"rules": [{"name": "x"}]}, "the key 'metric' is missing"),
        ({"window": "a day"}, "'a day' is no length of time"),
    ],
)
def test_options_that_make_no_sense(table: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineError, match=f"here.*: .*{re.escape(said)}"):
        parse_table(Options, table, "here")


def test_the_example() -> None:
    job = load_job(read_pipeline(EXAMPLES / "metrics.toml"))
    assert isinstance(job.options, Options)
    assert [rule.name for rule in job.options.rules] == ["memory", "busy", "gone"]


def test_the_docs() -> None:
    (block,) = (block for block in blocks_of("docs/pipelines.md", __file__) if block.kind == "toml")
    options = parse_table(Options, tomllib.loads(block.text)["options"], "docs")
    rule = AlertRule("memory", "resident_bytes", ">", 500_000_000, "30 seconds", "brokers-*")
    assert options == Options(rules=(rule,))
