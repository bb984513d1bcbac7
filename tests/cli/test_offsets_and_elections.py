"""``kafkalite get-offsets``, ``elect``: what is asked for; and what all commands share."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from kafkalite.cli.clients import id_text, kafka_error, parse_pairs, print_table, read_properties
from kafkalite.cli.elect import partitions
from kafkalite.cli.get_offsets import matches, parse_time
from kafkalite.cli.main import UsageError
from kafkalite.cli.perf import percentile, summary, window_line
from kafkalite.common.types import TopicPartition

from .helpers import parse

FOUND = [TopicPartition(topic, index) for topic in ("t", "tt", "u") for index in range(4)]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), [str(tp) for tp in FOUND]),
        (("--topic", "t+"), ["t-0", "t-1", "t-2", "t-3", "tt-0", "tt-1", "tt-2", "tt-3"]),
        (("--topic", "u", "--partitions", "1,3"), ["u-1", "u-3"]),
        (("--topic-partitions", "t:0,u:1-3"), ["t-0", "u-1", "u-2"]),
        (("--topic-partitions", "t:2-"), ["t-2", "t-3"]),
        (("--topic-partitions", "t:-1,u"), ["t-0", "u-0", "u-1", "u-2", "u-3"]),
        (("--topic-partitions", ":3"), ["t-3", "tt-3", "u-3"]),
    ],
)
def test_which_partitions(flags: tuple[str, ...], expected: list[str]) -> None:
    args = parse("get-offsets", *flags)
    assert [str(tp) for tp in FOUND if matches(tp, args)] == expected


def test_ranges_that_are_refused() -> None:
    with pytest.raises(UsageError, match="expected topic:partition or topic:from-to"):
        matches(FOUND[0], parse("get-offsets", "--topic-partitions", "t:x"))


@pytest.mark.parametrize(
    ("text", "value"), [("latest", -1), ("earliest", -2), ("max-timestamp", -3), ("-1", -1), ("17", 17)]
)
def test_times(text: str, value: int) -> None:
    assert parse_time(text) == value


def test_elections(tmp_path: Path) -> None:
    preferred = ("--election-type", "PREFERRED")
    assert partitions(parse("elect", *preferred, "--all-topic-partitions")) is None
    assert partitions(parse("elect", *preferred, "--topic", "t", "--partition", "2")) == {"t": [2]}
    file = tmp_path / "partitions.json"
    entries = [{"topic": "t", "partition": 1}, {"topic": "u", "partition": 0}, {"topic": "t", "partition": 0}]
    file.write_text(json.dumps({"partitions": entries}))
    assert partitions(parse("elect", *preferred, "--path-to-json-file", str(file))) == {"t": [1, 0], "u": [0]}
    file.write_text("{}")
    with pytest.raises(UsageError, match="not a list of partitions"):
        partitions(parse("elect", *preferred, "--path-to-json-file", str(file)))


def test_rates_and_percentiles() -> None:
    report = summary([float(n) for n in range(1, 1001)], 2.0, 1024 * 1024)
    assert (report["records"], report["records_per_s"], report["mb_per_s"]) == (1000, 500.0, 500.0)
    assert (report["avg_ms"], report["max_ms"]) == (500.5, 1000.0)
    assert [report[f"{name}_ms"] for name in ("p50", "p95", "p99", "p999")] == [501.0, 951.0, 991.0, 1000.0]
    assert percentile([7.0], 0.999) == 7.0
    assert summary([], 1.0, 100)["max_ms"] == 0.0
    line = "2 records sent, 1.0 records/sec (0.00 MB/sec), 2.0 ms avg latency, 3.0 ms max latency."
    assert window_line([1.0, 3.0], 2.0, 10) == line


def test_properties(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# a comment\n! another\n\n a.b = c=d \nempty=\n")
    assert read_properties(file) == {"a.b": "c=d", "empty": ""}
    file.write_text('sasl.jaas.config=Module required \\\n    password="a\\\\b";\nsasl.mechanism : PLAIN\n')
    assert read_properties(file) == {"sasl.jaas.config": 'Module required password="a\\b";', "sasl.mechanism": "PLAIN"}
    assert read_properties(None) == {}
    assert parse_pairs(["a=b", "c="], "--property") == {"a": "b", "c": ""}
    for wrong in ("a", "=b"):
        with pytest.raises(UsageError, match="--property"):
            parse_pairs([wrong], "--property")


def test_texts(capsys: pytest.CaptureFixture[str]) -> None:
    assert kafka_error(3, None) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert kafka_error(9999, "odd") == "error 9999: odd"
    assert id_text(None) == id_text(uuid.UUID(int=0)) == ""
    assert id_text(str(uuid.UUID(int=1))) == "AAAAAAAAAAAAAAAAAAAAAQ"
    print_table(["a", "long"], [[1, "x"], ["wide", ""]])
    assert capsys.readouterr().out == "a     long\n1     x\nwide\n"
