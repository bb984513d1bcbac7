"""Every command of the course runs, and prints what its page shows; one cluster serves all pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.blocks import COURSE, COURSE_START, course_pages
from integration.harness.documented import Desk, desk

pytestmark = pytest.mark.kafkalite_only
SPARK = "13-pipelines"
"""The chapter that starts Spark, which takes half a minute."""
PAGES = [
    # The pages that are no chapters show no more of the broker than the chapters do.
    pytest.param(
        page,
        id=page.stem,
        marks=[] if page.parent == COURSE and page.stem != SPARK else [pytest.mark.full],
    )
    for page in course_pages()
    if page != COURSE_START
]


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk on which the commands of the first page have run."""
    with desk(tmp_path_factory.mktemp("course")) as made:
        made.compare(COURSE_START, __file__)
        yield made


@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_shows(page: Path, student: Desk) -> None:
    student.compare(page, __file__)
    # A page may have restarted the cluster.
    settings = re.findall(r"--override (\S+)", COURSE_START.read_text())
    held = (student.folder / "cluster" / "broker-1" / "server.properties").read_text().splitlines()
    assert settings
    assert set(settings) <= set(held)


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
    chapters = [page for page in course_pages() if page.parent == COURSE and page != COURSE_START]
    corrections = [page.read_text().partition("\n## Half-truths\n")[2].partition("\n## ")[0] for page in chapters]
    assert all(corrections)
    assert any(f'*"{claim}' in text for text in corrections)
