"""MirrorMaker 2 mirrors a topic and the offsets of a group between two clusters, by the commands of its page."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from integration.blocks import blocks_of
from integration.conftest import SOAK
from integration.harness.documented import Desk, desk
from integration.harness.java import TOOL_FLAGS
from integration.harness.peers import KAFKA_3_9, MIRROR_MAKER_3_9, classpath, java

pytestmark = pytest.mark.kafkalite_only
MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"


def add_mirror_maker(reader: Desk) -> Path:
    """Put ``connect-mirror-maker.sh`` on the path of ``reader``; returns the file to which it writes its process id."""
    script = Path(reader.environment["PATH"].split(os.pathsep)[0]) / "connect-mirror-maker.sh"
    pid = reader.folder / "mirror.pid"
    jars = f"{classpath(KAFKA_3_9)}:{classpath(MIRROR_MAKER_3_9)}"
    flags = " ".join(["-Xmx400m", *TOOL_FLAGS[1:]])
    script.write_text(f"#!/bin/sh\necho $$ >{pid}\nexec {java()} {flags} -cp '{jars}' {MAIN} \"$@\"\n")
    script.chmod(0o755)
    return pid


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
@pytest.mark.timeout(600)
def test_a_group_goes_on_in_the_other_cluster(tmp_path: Path) -> None:
    with desk(tmp_path) as reader:
        pid = add_mirror_maker(reader)
        try:
            reader.compare("docs/data-centres.md", __file__)
        finally:
            if pid.exists():
                with suppress(ProcessLookupError):
                    os.kill(int(pid.read_text()), signal.SIGKILL)


def test_each_command_of_the_page_shows_its_output() -> None:
    assert all(block.output for block in blocks_of("docs/data-centres.md", __file__))
