"""The commands of docs/pipelines.md lead to a running pipeline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration.harness.documented import desk
from kafkalite.pipelines.connect.options import Options, parse_sink, parse_source
from kafkalite.pipelines.jobs import examples
from kafkalite.pipelines.options import parse_table
from kafkalite.pipelines.pipeline import parse

SECRETS = {"SHOP_PASSWORD": "x", "WAREHOUSE_PASSWORD": "y"}


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_five_minutes(tmp_path: Path) -> None:
    """All commands, unchanged except for the installation (which is this one) and the port."""
    with desk(
        tmp_path,
        patience=1000,
        KAFKALITE_STATE=str(tmp_path / "state"),
    ) as reader:
        try:
            output = reader.compare("docs/pipelines.md", __file__)
        finally:
            reader.kafkalite("pipeline", "stop", "flights-in")
    assert '{"carrier":"DL","flight":461,"delay":-25}' in output
    assert "flights-in runs in the background" in output
    assert re.search(r"-25 +DL", output), output
    assert "flights-in stopped" in output


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.name)
def test_examples(path: Path) -> None:
    """Every example of the package can be parsed."""
    pipeline = parse(path.read_text(), str(path), SECRETS)
    if pipeline.job == "connect":
        options = parse_table(Options, pipeline.options, pipeline.where)
        parse_source(options, pipeline.where)
        parse_sink(options, pipeline.where)
