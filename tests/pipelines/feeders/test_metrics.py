"""The sampler's view of processes."""

from __future__ import annotations

import json
import os
import re

import pytest

from integration.blocks import blocks_of
from kafkalite.pipelines.feeders.metrics import ProcessSampler, Sample, Watched, build_parser


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


def test_a_sample_is_the_documented_one() -> None:
    [block] = blocks_of("docs/pipelines.md", __file__)
    sample = Sample("a", "web", "sites", {"cpu_seconds": 12.5}, {"up": 1, "resident_bytes": 51_200_000})
    assert json.loads(sample.value(1_772_366_400.25)) == json.loads(block.text)


def test_a_process_that_lives() -> None:
    sample = next(ProcessSampler([Watched("me", "tests", os.getpid())], {}, "here").samples())
    assert (sample.host, sample.process, sample.group) == ("here", "me", "tests")
    assert sample.gauges["up"] == 1
    assert sample.gauges["resident_bytes"] > 1_000_000
    assert sample.gauges["threads"] >= 1
    assert sample.counters["cpu_seconds"] > 0


def test_a_process_that_dies_is_reported_a_last_time() -> None:
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


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--process", "a"], "'a' is not NAME=VALUE"),
        (["--process", "a=b"], "'b' is not the number of a process"),
        (["--match", "=x"], "'=x' is not NAME=VALUE"),
        (["--match", "all=("], "'(' is not a regular expression"),
        (["--topics", "["], "'[' is not a regular expression"),
        (["--property", "a="], "'a=' is not NAME=VALUE"),
    ],
)
def test_flags_that_make_no_sense(flags: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["--bootstrap-server", "b", *flags])
    complaint = capsys.readouterr().err
    assert flags[0] in complaint
    assert why in complaint
