"""A user's project runs the lines of ``docs/testing.md`` about containers."""

from __future__ import annotations

from pathlib import Path

from integration.blocks import blocks_of
from integration.harness.stranger import run


def test_the_documented_lines_about_containers_run(
    stranger_python: Path, tmp_path: Path, broker_image: str, zookeeper_image: str
) -> None:
    images = {"KAFKALITE_IMAGE": broker_image, "ZOOKEEPER_IMAGE": zookeeper_image}
    for block in blocks_of("docs/testing.md", __file__):
        (tmp_path / block.file).write_text(block.text)
    done = run(str(stranger_python), "-m", "pytest", "-q", cwd=tmp_path, environment=images)
    assert "2 passed" in done
    addresses, zookeeper = run(str(stranger_python), "three_containers.py", cwd=tmp_path, environment=images).split()
    assert len(addresses.split(",")) == 3
    assert zookeeper
