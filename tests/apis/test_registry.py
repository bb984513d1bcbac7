"""The registry: one handler for each key, whose file says versions, their KIPs, and where they become flexible."""

from __future__ import annotations

import ast
import inspect
import re
import sys

import pytest

from kafkalite.apis.registry import Api, served, serves
from kafkalite.protocol.api_keys import FIRST_FLEXIBLE, ApiKey
from kafkalite.protocol.messages import message_name


def header(api: Api) -> tuple[str, dict[int, str]]:
    """The first paragraph of the handler's file, and its notes by version."""
    source = inspect.getsource(sys.modules[api.handler.__module__])
    text = ast.get_docstring(ast.parse(source)) or ""
    notes = {int(version): note for version, note in re.findall(r"^- (\d+): (.+)$", text, re.MULTILINE)}
    return text.partition("\n\n")[0], notes


@pytest.mark.parametrize(("key", "api"), served().items())
def test_the_file_of_a_handler_begins_with_its_versions(key: ApiKey, api: Api) -> None:
    title, notes = header(api)
    assert f"{message_name(key)} {api.versions.min}-{api.versions.max}" in title
    assert notes.keys() >= set(range(1, api.versions.max + 1)), f"a version of {key.name} has no note"
    flexible = [version for version, note in notes.items() if "flexible (KIP-482)" in note]
    assert flexible == [FIRST_FLEXIBLE[key]] or (not flexible and FIRST_FLEXIBLE[key] > api.versions.max)


def test_a_key_has_one_handler() -> None:
    with pytest.raises(ValueError, match="HEARTBEAT is served by"):
        serves(ApiKey.HEARTBEAT, 0, 4)(len)


def test_keys_are_served_in_rising_order_because_api_versions_lists_them_so() -> None:
    assert list(served()) == sorted(served())
