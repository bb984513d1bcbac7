"""Commands of README.md, docs/deploy.md, docs/learn.md and docs/security.md that need no cluster of a special kind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from integration.blocks import blocks_of
from integration.conftest import ClusterFactory
from integration.harness.documented import desk
from kafkalite.learn.catalog import OWN_LABS, Catalog
from kafkalite.learn.lab import LabKind

pytestmark = pytest.mark.kafkalite_only


@pytest.mark.full
def test_the_readmes_commands_work(tmp_path: Path) -> None:
    with desk(tmp_path) as reader:
        output = reader.compare("README.md", __file__)
    assert "Created topic greetings." in output
    assert "hello\tworld" in output
    assert "/brokers/topics/greetings/partitions/0/state" in output


@pytest.mark.full
def test_commands_for_a_running_cluster_work(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    cluster = make_cluster(brokers=1)
    folder = tmp_path / "documented"
    folder.mkdir()
    with desk(folder, cluster.bootstrap) as reader:
        quotas = reader.compare("docs/security.md", __file__)
        loggers = reader.compare("docs/deploy.md", __file__)
    assert "user-principal 'alice'" in quotas
    assert "producer_byte_rate=1000000" in quotas
    assert "kafkalite.controller" in loggers


def test_the_lab_of_the_page_is_one(tmp_path: Path) -> None:
    [block] = blocks_of("docs/learn.md", __file__)
    folder = tmp_path / "greeting"
    folder.mkdir()
    (folder / "lab.py").write_text(block.text)
    shutil.copy(next(OWN_LABS.glob("*/lab.md")), folder)
    lab = Catalog([tmp_path]).load("greeting").lab
    assert (lab.chapter, lab.kind, lab.needs.brokers) == (1, LabKind.GUIDED, 1)
