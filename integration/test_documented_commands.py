"""Commands of README.md, docs/deploy.md, docs/learn.md and docs/security.md that need no cluster of a special kind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from integration import blocks, course
from integration.conftest import ClusterFactory
from integration.harness.documented import run_commands
from kafkalite.learn.catalog import OWN_LABS, Catalog
from kafkalite.learn.lab import LabKind

pytestmark = pytest.mark.kafkalite_only
HERE = Path(__file__).relative_to(blocks.ROOT).as_posix()


def documented(name: str, kind: str = "sh") -> list[str]:
    """The blocks of a document that this file runs. Raises ``AssertionError`` if there is none."""
    texts = [
        block.text for block in blocks.blocks(blocks.ROOT / name) if HERE in block.tests and block.kind in (kind, "")
    ]
    assert texts, f"{name} names no block for {HERE}"
    return texts


@pytest.mark.full
def test_the_readmes_commands_work(tmp_path: Path) -> None:
    [commands] = documented("README.md")
    base = course.free_base()
    output = run_commands(
        commands.replace("9092", str(base)), tmp_path, [["cluster", "stop", "--dir", "var/cluster"]], timeout=300
    )
    assert "Created topic greetings." in output
    assert "hello\tworld" in output
    assert "/brokers/topics/greetings/partitions/0/state" in output


@pytest.mark.full
def test_commands_for_a_running_cluster_work(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    cluster = make_cluster(brokers=1)
    folder = tmp_path / "documented"
    folder.mkdir()
    quotas = "".join(documented("docs/security.md")).replace("localhost:9092", cluster.bootstrap)
    loggers = "".join(documented("docs/deploy.md")).replace("b1:9092", cluster.bootstrap)
    output = run_commands(quotas + loggers, folder, [], timeout=120)
    assert "user-principal 'alice'" in output
    assert "producer_byte_rate=1000000" in output
    assert "kafkalite.controller" in output


def test_the_lab_of_the_page_is_one(tmp_path: Path) -> None:
    [code] = documented("docs/learn.md", "python")
    folder = tmp_path / "greeting"
    folder.mkdir()
    (folder / "lab.py").write_text(code)
    shutil.copy(next(OWN_LABS.glob("*/lab.md")), folder)
    lab = Catalog([tmp_path]).load("greeting").lab
    assert (lab.chapter, lab.kind, lab.needs.brokers) == (1, LabKind.GUIDED, 1)
