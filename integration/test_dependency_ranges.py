"""kazoo and kafka-python, whose private parts kafkalite uses, at both ends of the ranges in ``pyproject.toml``.

``kafkalite/zk/kazoo_session.py`` overrides kazoo's connection. ``kafkalite/protocol/library.py`` imports kafka-python's
message classes without its packages, ``kafkalite/apis/error_responses.py`` reads their fields, and
``kafkalite/cli/clients.py`` sends requests through the admin client's private connection. So a range ends
before the next minor version, and is widened when these tests pass with it.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from integration.harness.stranger import ROOT, run

LIBRARIES = ("kafka-python", "kazoo")
USERS_OF_PRIVATE_PARTS = (
    "tests/protocol",
    "tests/apis",
    "tests/zk",
    "integration/test_zookeeper_client.py",
)


def ranges() -> dict[str, str]:
    """Library → the versions that ``pyproject.toml`` allows."""
    dependencies: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found = (re.fullmatch(r"([\w-]+)([<>=].*)", dependency) for dependency in dependencies)
    return {match[1]: match[2] for match in found if match and match[1] in LIBRARIES}


def oldest(library: str) -> str:
    match = re.match(r">=([\d.]+),<", ranges()[library])
    assert match, f"pyproject.toml: {library}{ranges()[library]} is not `>=OLDEST,<LIMIT`"
    return f"{library}=={match[1]}"


def newest(library: str) -> str:
    """The range, for which pip chooses the newest version."""
    return f"{library}{ranges()[library]}"


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_range_ends_before_the_next_minor_version(library: str) -> None:
    """The installed version is in the range, and in the last minor version that the range allows."""
    match = re.fullmatch(r">=([\d.]+),<([\d.]+)", ranges()[library])
    assert match, f"pyproject.toml: {library}{ranges()[library]} is not `>=OLDEST,<LIMIT`"
    first, limit, installed = numbers(match[1]), numbers(match[2]), numbers(version(library))
    assert first <= installed < limit
    assert (installed[0], installed[1] + 1) == limit, (
        f"{library} {version(library)} is installed, but <{match[2]} allows minor versions that no test has seen"
    )


@pytest.mark.full
@pytest.mark.parametrize("requirement", [oldest, newest])
def test_kafkalite_works_with_the_oldest_and_the_newest_versions(requirement: object, tmp_path: Path) -> None:
    assert callable(requirement)
    wanted = [requirement(library) for library in LIBRARIES]
    pip = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target")
    run_with(tmp_path, *pip, tmp_path, *wanted)
    names = run_with(
        tmp_path, "-c", f"from importlib.metadata import version; print(*map(version, {LIBRARIES}))"
    ).split()
    if requirement is oldest:
        assert [f"{library}=={name}" for library, name in zip(LIBRARIES, names, strict=True)] == wanted
    for module in ("kafka", "kazoo"):
        assert run_with(tmp_path, "-c", f"import {module}; print({module}.__file__)").startswith(str(tmp_path))
    run_with(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *USERS_OF_PRIVATE_PARTS)


def run_with(libraries: Path, *arguments: str | Path) -> str:
    """Output of Python with the libraries of a folder before the installed ones."""
    path = os.pathsep.join([str(libraries), str(ROOT)])
    return run(sys.executable, *map(str, arguments), cwd=ROOT, environment={"PYTHONPATH": path})
