"""Every command of the course runs, and prints what its page shows; one cluster serves all pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration import course

pytestmark = pytest.mark.kafkalite_only
SPARK = "13-pipelines"
"""The chapter that starts Spark, which takes half a minute."""
PAGES = [
    # The pages that are no chapters show no more of the broker than the chapters do.
    pytest.param(
        page,
        id=page.stem,
        marks=[] if page.parent == course.FOLDER and page.stem != SPARK else [pytest.mark.full],
    )
    for page in course.pages()
    if page != course.START
]


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Iterator[course.Desk]:
    """A desk on which the commands of the first page have run."""
    with course.desk(tmp_path_factory.mktemp("course")) as desk:
        compare(course.START, desk)
        yield desk


def compare(page: Path, desk: course.Desk) -> None:
    for block, printed in zip(course.commands_with_output(page), desk.run(page), strict=True):
        assert block.output is None or course.matches(block.output, printed), (
            f"{page.name}:\n{block.text}\nshown:\n{block.output}\nprinted:\n{printed}"
        )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_shows(page: Path, student: course.Desk) -> None:
    compare(page, student)
    # A page may have restarted the cluster.
    settings = re.findall(r"--override (\S+)", course.START.read_text())
    held = (student.folder / "cluster" / "broker-1" / "server.properties").read_text().splitlines()
    assert settings
    assert set(settings) <= set(held)


@pytest.mark.parametrize("page", course.pages(), ids=lambda page: page.stem)
def test_every_block_runs_or_says_why_not(page: Path) -> None:
    runs = ("sh", "python")
    texts = course.blocks(page.read_text())
    silent = [each.text for each in texts if each.kind not in (*runs, "{toctree}") and not each.reason]
    assert not silent


@pytest.mark.parametrize(
    "claim",
    [
        "ZooKeeper stores the messages",
        "More partitions are always better",
        "acks=all means all replicas",
        "Exactly once is impossible",
        "Exactly once is free",
        "Consumers are pushed to",
        "Offsets are always in ZooKeeper",
        "offsets are always in a topic",
    ],
)
def test_a_common_mistake_is_corrected(claim: str) -> None:
    chapters = [page for page in course.pages() if page.parent == course.FOLDER and page != course.START]
    corrections = [page.read_text().partition("\n## Half-truths\n")[2].partition("\n## ")[0] for page in chapters]
    assert all(corrections)
    assert any(f'*"{claim}' in text for text in corrections)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "b\n", False),
        ("a\n", "a\nb\n", False),
        ("a …\n", "a b c\n", True),
        ("a …\n", "a b\nc\n", False),
        ("a\n…\nc\n", "a\nb\nb\nc\n", True),
        ("a\n…\nc\n", "a\nc\n", True),
        ("a\n…\nc\n", "a\nb\n", False),
        ("leader epoch 1\n", "leader epoch 2\n", False),
        ("zxid 1 at 1795493386227\n", "zxid 2 at 1795493386228\n", True),
        ("a\n", "localhost:9092/1: Connect to ipv4#127.0.0.1:9092 failed: Connection refused\na\n", True),
        ("a\n", "%1: Connection refused\na\n", False),
    ],
)
def test_what_is_the_same_output(shown: str, printed: str, same: bool) -> None:
    assert course.matches(shown, printed) == same
