"""Each Kafka Improvement Proposal that is named has its title in one table, and the table has no other."""

from __future__ import annotations

import re

import pytest

from integration import kips

LONG = 24
"""A shorter title may be part of any sentence."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return dict(kips.texts())


def test_each_proposal_that_is_named_has_a_title_and_no_other_has() -> None:
    assert set(kips.uses()) == set(kips.TITLES)


def test_the_table_is_in_the_order_of_the_numbers() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", (kips.ROOT / kips.PAGE).read_text(), re.MULTILINE)
    assert [(int(number), title) for number, title, _ in rows] == list(kips.TITLES.items())
    assert list(kips.TITLES) == sorted(kips.TITLES)


def test_titles_stand_nowhere_else(texts: dict[str, str]) -> None:
    titles = {number: title.lower() for number, title in kips.TITLES.items() if len(title) >= LONG}
    assert len(titles) > 100
    copies = [
        f"{path}: the title of KIP-{number}"
        for path, text in texts.items()
        for number in {int(each) for each in kips.NUMBER.findall(text)} & set(titles)
        if titles[number] in " ".join(text.lower().split())
    ]
    assert copies == []


@pytest.mark.parametrize(
    ("paths", "shown"),
    [
        (["docs/course/06-replication.md"], "[course/06-replication](course/06-replication.md)"),
        (["kafkalite/apis/a.py", "kafkalite/apis/b.py", "tests/apis/test_a.py"], "`kafkalite/apis`"),
        (["kafkalite/learn/labs/lost_record/lab.md"], "lab `lost-record`"),
        (["tests/test_a.py"], "`tests/test_a.py`"),
    ],
)
def test_a_place_is_a_page_a_lab_or_a_room(paths: list[str], shown: str) -> None:
    assert kips.places(paths) == shown
