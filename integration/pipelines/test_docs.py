"""docs/pipelines.md: from nothing to a running pipeline, by its own commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from kafkalite.embedded.processes import free_ports
from kafkalite.pipelines.connect.options import Options, parse_sink, parse_source
from kafkalite.pipelines.jobs import examples
from kafkalite.pipelines.options import parse_table
from kafkalite.pipelines.pipeline import parse

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "pipelines.md").read_text()
FIVE_MINUTES = TEXT.partition("\n## Five minutes\n")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", FIVE_MINUTES, re.DOTALL | re.MULTILINE)
SECRETS = {"SHOP_PASSWORD": "x", "WAREHOUSE_PASSWORD": "y"}


def shims(folder: Path) -> Path:
    """``kafkalite`` and ``python3`` as the virtual environment of the text has them."""
    folder.mkdir()
    for name, words in {"kafkalite": ["-m", "kafkalite.cli.main"], "python3": []}.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {" ".join([sys.executable, *words])} "$@"\n')
        script.chmod(0o755)
    return folder


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_five_minutes(tmp_path: Path) -> None:
    """All of the commands, as they stand, but for the installation (which is this one) and the port."""
    install, *commands = COMMANDS
    extras = re.fullmatch(r"pip install 'kafkalite\[([a-z,]+)]'\n", install)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(metadata("kafkalite").get_all("Provides-Extra") or [])
    script = "set -eux\n" + "".join(commands).replace("9092", str(free_ports(1)[0]))
    environment = {
        **os.environ,
        "PATH": f"{shims(tmp_path / 'bin')}:{os.environ['PATH']}",
        "KAFKALITE_STATE": str(tmp_path / "state"),
        "PYTHONPATH": str(ROOT),
    }
    folder = tmp_path / "work"
    folder.mkdir()
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1000,
            check=False,
        )
    finally:
        for command in (["pipeline", "stop", "flights-in"], ["cluster", "stop", "--dir", "cluster"]):
            quiet = subprocess.DEVNULL
            subprocess.run(
                [tmp_path / "bin" / "kafkalite", *command], cwd=folder, env=environment, stderr=quiet, check=False
            )
    said = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0, said
    assert '{"carrier":"DL","flight":461,"delay":-25}' in done.stdout, said
    assert "flights-in runs in the background" in done.stdout, said
    assert re.search(r"-25 +DL", done.stdout), said
    assert "flights-in stopped" in done.stdout, said
    assert "Traceback" not in done.stderr, said


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.name)
def test_examples(path: Path) -> None:
    """Every example that comes with the package can be read."""
    pipeline = parse(path.read_text(), str(path), SECRETS)
    if pipeline.job == "connect":
        options = parse_table(Options, pipeline.options, pipeline.where)
        parse_source(options, pipeline.where)
        parse_sink(options, pipeline.where)
