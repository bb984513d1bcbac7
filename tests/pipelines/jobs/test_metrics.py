"""The options of the job *metrics*, and its sampler's view of processes."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.feeders.metrics import ProcessSampler, Sample, Watched, build_parser
from kafkalite.pipelines.jobs.alert_rules import AlertRule
from kafkalite.pipelines.jobs.metrics import Options
from kafkalite.pipelines.options import parse_table

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


def test_a_sample_is_json_with_its_time() -> None:
    sample = Sample("h", "p", None, {"c": 1}, {"g": 2.5})
    assert sample.key == "h/p"
    assert json.loads(sample.value(1_772_366_400.25)) == {
        "time": "2026-03-01T12:00:00.250Z",
        "host": "h",
        "process": "p",
        "group": None,
        "counters": {"c": 1},
        "gauges": {"g": 2.5},
    }


def test_a_process_that_lives() -> None:
    sample = next(ProcessSampler([Watched("me", "tests", os.getpid())], {}, "here").samples())
    assert (sample.host, sample.process, sample.group) == ("here", "me", "tests")
    assert sample.gauges["up"] == 1
    assert sample.gauges["resident_bytes"] > 1_000_000
    assert sample.gauges["threads"] >= 1
    assert sample.counters["cpu_seconds"] > 0


def test_a_process_that_dies_is_told_of_once_more() -> None:
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)
    sampler = ProcessSampler([Watched("child", None, child)], {}, "here")
    assert next(sampler.samples()).gauges["up"] == 1
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert [sample.gauges for sample in sampler.samples()] == [{"up": 0}]
    assert list(sampler.samples()) == []


def test_flags() -> None:
    flags = ["--bootstrap-server", "b", "--process", "a=1", "--process", "b:g=2", "--match", "all=python.*x"]
    args = build_parser().parse_args(flags)
    assert args.process == [Watched("a", None, 1), Watched("b", "g", 2)]
    assert args.match == [("all", re.compile("python.*x"))]


@pytest.mark.parametrize("flags", [["--process", "a"], ["--process", "a=b"], ["--match", "=x"], ["--property", "a="]])
def test_flags_that_make_no_sense(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["--bootstrap-server", "b", *flags])
    assert flags[0] in capsys.readouterr().err
