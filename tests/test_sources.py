"""What the course, its companions and the labs say of Kafka has sources, and their figures are measured ones."""

from __future__ import annotations

import re

import pytest

from integration import kafka_sources
from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.log.log_config import TOPIC_CONFIGS

TEXTS = kafka_sources.texts()
CHAPTERS = sorted(path for path in TEXTS if re.search(r"course/\d\d-", path))
LABS = sorted(path for path in TEXTS if path.endswith("/lab.md"))
USES = sorted(path for path in TEXTS if "/use-cases/" in path)
SOURCE = re.compile(
    r"KIP-\d|\b[Dd]ocumentation\b|Guide\b|CONFIGURATION\.md|\(\d{4}\)|\b(?:org\.apache\.)?kafka\.\w+\.|release notes"
    r"|RFC \d|source\."
)
"""A source: a KIP, a documentation, a dated paper, a class, release notes, an RFC, or files of Kafka's source."""
FIGURE = re.compile(r"(?<![\w.=])(\d{1,3}(?:,\d{3})+|\d+\.\d+)(?!\w|\.\d)")
THOUSANDS = {"k": 1_000, "M": 1_000_000}

DEFAULTS = [
    ("docs/course/index.md", "waits three seconds", "group.initial.rebalance.delay.ms", 3_000),
    ("docs/course/index.md", "every 15 seconds", "log.cleaner.backoff.ms", 15_000),
    ("docs/course/index.md", "retention every five minutes", "log.retention.check.interval.ms", 300_000),
    ("docs/course/index.md", "18 seconds (its session", "zookeeper.session.timeout.ms", 18_000),
    ("docs/course/index.md", "30 seconds (its place in the ISR)", "replica.lag.time.max.ms", 30_000),
    ("docs/course/03-segments.md", "`index.interval.bytes` (4,096)", "index.interval.bytes", 4_096),
    ("docs/course/04-zookeeper.md", "18 s by default", "zookeeper.session.timeout.ms", 18_000),
    ("docs/course/06-replication.md", "`replica.lag.time.max.ms` (30 s)", "replica.lag.time.max.ms", 30_000),
    ("docs/course/10-retention.md", "`retention.ms` (7 days)", "retention.ms", 7 * 86_400_000),
    ("docs/course/10-retention.md", "`retention.bytes` (no limit)", "retention.bytes", -1),
    ("docs/course/10-retention.md", "(`segment.ms`, 7 days)", "segment.ms", 7 * 86_400_000),
    ("docs/course/10-retention.md", "`delete.retention.ms` (one day)", "delete.retention.ms", 86_400_000),
    ("docs/course/12-security.md", "which is off by default", "connections.max.reauth.ms", 0),
    ("docs/course/12-security.md", "`authorizer.class.name` is empty", "authorizer.class.name", ""),
]
"""Page, what it says, key, the default that this means. ``integration/test_kafka_configs.py`` has ours be Kafka's."""


def section(text: str, heading: str) -> str:
    """The text below ``heading`` up to the next one of the same level."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("path", CHAPTERS)
def test_a_chapter_has_sources(path: str) -> None:
    entries = [flat(each) for each in re.split(r"^- ", section(TEXTS[path], "Sources"), flags=re.MULTILINE) if each]
    assert len(entries) >= 3
    assert [each for each in entries if not SOURCE.search(each)] == []


@pytest.mark.parametrize("path", LABS)
def test_a_lab_has_sources(path: str) -> None:
    assert SOURCE.search(section(TEXTS[path], "Sources"))


@pytest.mark.parametrize("path", USES)
def test_a_use_has_sources(path: str) -> None:
    end = flat(TEXTS[path]).rpartition("[1]" if path.endswith("index.md") else "Source")[2]
    assert SOURCE.search(end)


@pytest.mark.parametrize("path", ["docs/cap.md", "docs/data-centres.md"])
def test_each_number_of_a_source_is_used(path: str) -> None:
    text, _, sources = TEXTS[path].partition("\n## Sources\n")
    numbers = set(re.findall(r"^(\d+)\. ", sources, re.MULTILINE))
    assert numbers
    assert set(re.findall(r"\[(\d+)\](?!\()", text)) == numbers


def test_the_classes_of_kafka_that_are_named_are_those_of_the_list() -> None:
    listed = {name: set(members) for each in kafka_sources.CLASSES.values() for name, members in each.items()}
    assert kafka_sources.named_in_texts() == listed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`kafka.log.UnifiedLog.append`", {("kafka.log.UnifiedLog", "append")}),
        ("`kafka.log.UnifiedLog` (`read`, `roll`)", {("kafka.log.UnifiedLog", each) for each in ("", "read", "roll")}),
        ("class `kafka.log.UnifiedLog`, `read`.", {("kafka.log.UnifiedLog", each) for each in ("", "read")}),
        ("a TopicRecord", {(f"{kafka_sources.RECORDS}.TopicRecord", "")}),
        ("`kafkalite.log.Log` and `log.dirs`", set()),
    ],
)
def test_classes_and_members_are_found_in_a_text(text: str, found: set[tuple[str, str]]) -> None:
    assert set(kafka_sources.named(text)) == found


@pytest.mark.parametrize(("path", "words", "key", "value"), DEFAULTS)
def test_a_default_is_what_the_page_says(path: str, words: str, key: str, value: object) -> None:
    assert words in flat(TEXTS[path])
    configs = TOPIC_CONFIGS if key in TOPIC_CONFIGS.keys else BROKER_CONFIGS
    assert configs.keys[key].default == value


def measured() -> dict[str, set[float]]:
    """Anchor of a section of docs/performance.md → the figures of kafkalite and of Kafka in its table, no ratios."""
    page = (kafka_sources.ROOT / "docs" / "performance.md").read_text()
    tables: dict[str, set[float]] = {}
    for title, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL):
        anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        cells = [cell for row in re.findall(r"^\| .* \|$", body, re.MULTILINE) for cell in row.split(" | ")[2:4]]
        figures = [each for cell in cells if (each := re.fullmatch(r"([\d,.]+) ?([kM]?)", cell))]
        tables[anchor] = {float(each[1].replace(",", "")) * THOUSANDS.get(each[2], 1) for each in figures}
    return tables


def test_figures_of_kafkalite_are_those_of_the_benchmark_that_is_named() -> None:
    tables, checked = measured(), 0
    for path, text in TEXTS.items():
        for paragraph in re.split(r"\n\n|\n(?=- )", text):
            for anchor in re.findall(r"performance\.md#([\w-]+)", paragraph):
                figures = {float(each.replace(",", "")) for each in FIGURE.findall(paragraph)}
                assert not figures or "`make bench`" in paragraph, f"{path}: say what measured {figures}"
                assert figures <= tables[anchor], f"{path}: {figures - tables[anchor]} is not in #{anchor}"
                checked += len(figures)
    assert checked >= 8
