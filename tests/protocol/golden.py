"""The golden bytes, and the comparison of decoded values with those that Kafka's JsonConverter printed."""

from __future__ import annotations

import base64
import json
import re
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from kafkalite.common.types import uuid_from_text
from kafkalite.protocol.api_keys import ApiKey


class Golden(NamedTuple):
    """One message of one version as Kafka 3.9.1 wrote it."""

    name: str
    side: str
    version: int
    data: bytes
    values: dict[str, Any]

    @property
    def api_key(self) -> ApiKey:
        return ApiKey[snake(self.name).upper()]

    def __str__(self) -> str:
        return f"{self.name}-{self.side}-v{self.version}"


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def load() -> list[Golden]:
    lines = (Path(__file__).parent / "data" / "golden.txt").read_text().splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return [
        Golden(name, side, int(version), bytes.fromhex(data), json.loads(v)) for name, side, version, data, v in rows
    ]


GOLDEN = load()


def assert_same(value: Any, expected: Any, where: str = "") -> None:
    """Whether a message of the library has the values that Kafka printed."""
    if isinstance(expected, dict):
        for name, inner in expected.items():
            field = snake(name)
            if field.endswith("authorized_operations") and not field.startswith("include"):
                bits = sum(1 << bit for bit in value.authorized_operations)
                assert bits == inner, where
            else:
                assert_same(getattr(value, field), inner, f"{where}.{field}")
    elif isinstance(expected, list):
        assert len(value) == len(expected), where
        for item, inner in zip(value, expected, strict=True):
            assert_same(item, inner, where)
    elif isinstance(value, bytes):
        assert value == base64.b64decode(expected), where
    elif isinstance(value, uuid.UUID):
        assert value == uuid_from_text(expected), where
    else:
        assert value == expected, where
