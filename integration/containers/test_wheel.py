"""A user's project runs the lines of ``docs/testing.md`` about containers."""

from __future__ import annotations

from pathlib import Path

from integration.harness.stranger import run, shown_files
from integration.test_testing_wheel import DOCUMENT, IN_CONTAINERS


def test_the_documented_lines_about_containers_run(
    stranger_python: Path, tmp_path: Path, broker_image: str, zookeeper_image: str
) -> None:
    images = {"KAFKALITE_IMAGE": broker_image, "ZOOKEEPER_IMAGE": zookeeper_image}
    files = shown_files(DOCUMENT)
    for name in IN_CONTAINERS:
        (tmp_path / name).write_text(files[name])
    done = run(str(stranger_python), "-m", "pytest", "-q", cwd=tmp_path, environment=images)
    assert "2 passed" in done
    addresses, zookeeper = run(str(stranger_python), "three_containers.py", cwd=tmp_path, environment=images).split()
    assert len(addresses.split(",")) == 3
    assert zookeeper
