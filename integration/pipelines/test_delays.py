"""The job ``delays`` over the demo's flights of 2013, compared with figures from the package's files."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import islice

import pytest
from pyspark.errors import AnalysisException

from integration.blocks import blocks_of
from integration.conftest import SOAK
from integration.pipelines.conftest import Pipelines
from integration.pipelines.flights import DATA, closed, expected, flight_rows, in_time, latest, lines, send
from integration.pipelines.reading import json_records
from integration.spark.topics import new_topic
from kafkalite.cli.flights import flights as demo_flights
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.pipelines.errors import PipelineError

EVERY = 1 if SOAK else 40
"""One flight of this number is sent, of all months, in the order of the file."""


@pytest.mark.full
def test_the_delays_of_a_year_are_right(pipelines: Pipelines, shared_cluster: LocalCluster) -> None:
    """The second of two runs continues the windows of the first."""
    rows = flight_rows()[::EVERY]
    flights = list(islice(demo_flights(400_000), 0, None, EVERY))
    topic, results = new_topic(shared_cluster, "flights", 3), new_topic(shared_cluster, "delays", 2)
    options = f'[options]\nflights = "{topic}"\ndelays = "{results}"\n'
    half = len(rows) // 2 + 7
    send(shared_cluster, topic, flights[:half])
    pipelines.run("delays", options, "delays")
    assert latest(shared_cluster, results) == expected(rows[:half])
    send(shared_cluster, topic, flights[half:])
    pipelines.run("delays", options, "delays")
    assert latest(shared_cluster, results) == expected(rows)


def test_the_documented_record_is_the_result_of_its_day() -> None:
    [block] = blocks_of("docs/pipelines.md", __file__)
    shown = json.loads(block.text)
    assert expected(flight_rows())[shown["window"]["start"], shown["origin"]] == shown


@pytest.mark.full
def test_flights_from_files_have_final_results(pipelines: Pipelines, shared_cluster: LocalCluster) -> None:
    rows = in_time(flight_rows()[::400])
    topic, results = new_topic(shared_cluster, "flights", 1), new_topic(shared_cluster, "delays", 1)
    options = f"""
        [options]
        flights = "{topic}"
        delays = "{results}"
        weather = "{DATA / "weather.csv"}"
        planes = "{DATA / "planes.csv"}"
        window = "12 hours"
        late = "1 hour"
        delayed = 30
        results = "final"
        malformed = "skip"
    """
    for part in ([*lines(rows[:500]), (b"", b"no,flight")], lines(rows[500:])):
        send(shared_cluster, topic, part)
        pipelines.run("final", options, "delays")
    newest = datetime.fromisoformat(rows[-1]["time_hour"]) - timedelta(hours=1)
    everything = expected(rows, timedelta(hours=12), 30)
    over = closed(everything, newest)
    assert len(json_records(shared_cluster.bootstrap, results)) == len(over) < len(everything), "each once"
    assert latest(shared_cluster, results) == over


def test_a_missing_topic_is_an_error(pipelines: Pipelines, shared_cluster: LocalCluster) -> None:
    with pytest.raises(PipelineError, match="no topic 'flights-of-nobody' at"):
        pipelines.run("wrong", '[options]\nflights = "flights-of-nobody"\n', "delays")
    topic = new_topic(shared_cluster, "flights", 1)
    tables = f'[options]\nflights = "{topic}"\ndelays = "{topic}"\nweather = "nowhere.csv"\n'
    with pytest.raises(AnalysisException, match=r"PATH_NOT_FOUND.*nowhere"):
        pipelines.run("wrong", tables, "delays")


def test_a_line_that_is_no_flight_fails_the_pipeline(pipelines: Pipelines, shared_cluster: LocalCluster) -> None:
    topic, results = new_topic(shared_cluster, "flights", 1), new_topic(shared_cluster, "delays", 1)
    send(shared_cluster, topic, [*lines(flight_rows()[:2]), (b"", b"2013,1,x")])
    with pytest.raises(PipelineError, match="Malformed CSV record: 2013,1,x"):
        pipelines.run("wrong", f'[options]\nflights = "{topic}"\ndelays = "{results}"\n', "delays")
