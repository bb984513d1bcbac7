"""The contents of a pipeline's file."""

from __future__ import annotations

import pytest

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.pipeline import Pipeline, SparkSettings, Trigger, parse

SMALL = 'name = "p"\njob = "metrics"\n[kafka]\n"bootstrap.servers" = "here:9092"\n'


def test_little_is_needed() -> None:
    assert parse(SMALL, "p.toml") == Pipeline("p", "metrics", {"bootstrap.servers": "here:9092"}, where="p.toml")


def test_all_of_it() -> None:
    text = """
        name = "p-1.x"
        job = "my_package.my_job"
        checkpoints = "hdfs://name/checkpoints"
        [kafka]
        bootstrap.servers = "here:9092"
        sasl.password = "${env:SECRET}"
        fetch.min.bytes = 10
        check.crcs = true
        [trigger]
        interval = "5 seconds"
        once = true
        [spark]
        master = "yarn"
        jars = "driver.jar"
        packages = ["a:b:1"]
        spark.executor.memory = "2g"
        "spark.executor.cores" = 2
        [options]
        topic = "t"
        nested = { names = ["${env:SECRET}"] }
    """
    kafka = {"bootstrap.servers": "here:9092", "sasl.password": "s", "fetch.min.bytes": "10", "check.crcs": "true"}

    pipeline = parse(text, "p.toml", {"SECRET": "s"})
    assert pipeline == Pipeline(
        "p-1.x",
        "my_package.my_job",
        kafka,
        Trigger("5 seconds", once=True),
        SparkSettings(
            "yarn", ("driver.jar",), ("a:b:1",), {"spark.executor.memory": "2g", "spark.executor.cores": "2"}
        ),
        {"topic": "t", "nested": {"names": ["s"]}},
        "hdfs://name/checkpoints",
        "p.toml",
    )
    assert pipeline.kafka_options()["kafka.sasl.password"] == "s"


def test_once_and_master_of_the_command_line() -> None:
    pipeline = parse(SMALL, "p.toml")
    assert pipeline.trigger.spark() == {"processingTime": "1 second"}
    assert pipeline.with_once().trigger.spark() == {"availableNow": True}
    assert pipeline.with_master("yarn").spark.master == "yarn"


BAD = {
    "name = p": "p.toml: this is not TOML: Invalid value (at line 1, column 8)",
    SMALL.replace("name", "nmae"): "p.toml: unknown key 'nmae' (did you mean 'name'?)",
    SMALL.replace('"p"', '"../p"'): "p.toml: name '../p' may have a to z",
    SMALL.replace('"p"', "3"): "p.toml: 'name' must be a text, not 3",
    SMALL.replace("metrics", "metric"): "p.toml: no job 'metric'; known are connect, ",
    SMALL.replace('"bootstrap.servers"', "x"): "p.toml [kafka]: the key 'bootstrap.servers' is missing",
    SMALL.replace('"here:9092"', "[1]"): "p.toml [kafka]: 'bootstrap.servers' must be a text, a number, true or false",
    SMALL.replace("[kafka]", "kafka = 3\n[x]"): "p.toml: 'kafka' must be a table, [kafka]",
    "options = 3\n" + SMALL: "p.toml: 'options' must be a table, [options]",
    SMALL + "[source]\n": "p.toml: the job 'metrics' has no table [source], but [options]",
    SMALL + "[spark]\nmemory = '2g'": "p.toml [spark]: unknown key 'memory'",
    SMALL + "[spark]\njars = 3": "p.toml [spark]: 'jars' must be a text, not 3",
    SMALL + "[trigger]\ninterval = '5 parsecs'": "p.toml [trigger]: interval '5 parsecs' is no time",
    SMALL.replace("here", "${env:NOT_SET_AT_ALL}"): "p.toml: the variable NOT_SET_AT_ALL of the environment is not set",
}


@pytest.mark.parametrize("text", BAD)
def test_invalid_files_are_refused(text: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse(text, "p.toml", {})
    assert str(caught.value).startswith(BAD[text])
    assert "\n" not in str(caught.value)
