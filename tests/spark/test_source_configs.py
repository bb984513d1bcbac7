"""The table of the source's options beside the parser that reads them, and beside docs/spark.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkalite.common.config import ConfigKey, ConfigType
from kafkalite.spark.options import SourceOptions
from kafkalite.spark.source_configs import SOURCE_CONFIGS

REQUIRED = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
NAMES = set(SOURCE_CONFIGS.keys)


class Noting(dict[str, str]):
    """Options that note the names that the parser asks for."""

    def __init__(self, options: dict[str, str], noted: set[str]) -> None:
        super().__init__(options)
        self._noted = noted

    def __contains__(self, name: object) -> bool:
        self._noted.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self._noted.add(name)
        return super().get(name, default)


def test_the_table_has_the_options_that_the_parser_reads() -> None:
    noted = {"includeheaders"}  # read by includes_headers, from a copy
    for streaming in (False, True):
        SourceOptions._parse(Noting(REQUIRED, noted), streaming)
    assert noted == {name.lower() for name in NAMES if not name.startswith("kafka.")}


def test_the_table_has_the_options_of_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs/spark.md").read_text()
    rows = text.partition("## Options of the source")[2].partition("\n\nRefused")[0].splitlines()
    assert {
        name for row in rows if row.startswith("| `") for name in re.findall(r"`(.*?)`", row.split("|")[1])
    } == NAMES


@pytest.mark.parametrize("key", [key for key in SOURCE_CONFIGS.keys.values() if key.default is not None])
def test_a_default_that_is_written_out_changes_nothing(key: ConfigKey) -> None:
    default = key.render(key.default)
    assert default is not None
    given = SourceOptions.parse({**REQUIRED, key.name: default}, streaming=False)
    assert given == SourceOptions.parse(REQUIRED, streaming=False)


def test_numbers_are_refused_where_the_table_says_so() -> None:
    numbers = [key for key in SOURCE_CONFIGS.keys.values() if key.minimum is not None]
    assert {key.type for key in numbers} == {ConfigType.INT, ConfigType.LONG}
    for key in numbers:
        with pytest.raises(ValueError, match="must be positive"):
            SourceOptions.parse({**REQUIRED, key.name: "0"}, streaming=True)
