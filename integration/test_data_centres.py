"""MirrorMaker 2 mirrors a topic and the offsets of a group between two clusters, by the commands of its page."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from integration import course
from integration.conftest import SOAK
from integration.harness.java import TOOL_FLAGS
from integration.harness.peers import KAFKA_3_9, MIRROR_MAKER_3_9, classpath, java

pytestmark = pytest.mark.kafkalite_only
PAGE = course.ROOT / "docs" / "data-centres.md"
MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"


def add_mirror_maker(desk: course.Desk) -> Path:
    """Put ``connect-mirror-maker.sh`` on the path of ``desk``; returns the file to which it writes its process id."""
    script = Path(desk.environment["PATH"].split(os.pathsep)[0]) / "connect-mirror-maker.sh"
    pid = desk.folder / "mirror.pid"
    jars = f"{classpath(KAFKA_3_9)}:{classpath(MIRROR_MAKER_3_9)}"
    flags = " ".join(["-Xmx400m", *TOOL_FLAGS[1:]])
    script.write_text(f"#!/bin/sh\necho $$ >{pid}\nexec {java()} {flags} -cp '{jars}' {MAIN} \"$@\"\n")
    script.chmod(0o755)
    return pid


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
@pytest.mark.timeout(600)
def test_a_group_goes_on_in_the_other_cluster(tmp_path: Path) -> None:
    with course.desk(tmp_path) as desk:
        pid = add_mirror_maker(desk)
        try:
            printed = desk.run(PAGE)
        finally:
            if pid.exists():
                with suppress(ProcessLookupError):
                    os.kill(int(pid.read_text()), signal.SIGKILL)
            for name in ("east", "west"):
                subprocess.run(
                    ["kafkalite", "cluster", "stop", "--dir", name],
                    cwd=desk.folder,
                    env=desk.environment,
                    capture_output=True,
                    check=False,
                )
    for block, said in zip(course.commands_with_output(PAGE), printed, strict=True):
        assert block.output is not None
        assert course.matches(block.output, said), f"{block.text}\nshown:\n{block.output}\nprinted:\n{said}"


def test_each_command_of_the_page_shows_its_output() -> None:
    commands = course.commands_with_output(PAGE)
    assert commands
    assert all(block.output for block in commands)
