"""The classes of Kafka that the course names as sources are in Kafka's own jars, with the members that it names."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from integration.harness import peers
from integration.kafka_sources import CLASSES, SOURCE_ONLY

RELEASES = [each for each in CLASSES if each != SOURCE_ONLY]


def class_files(jars: Path) -> dict[str, bytes]:
    """Class → its class file, and those of the classes within it, from all jars of Kafka and Connect."""
    found: dict[str, bytes] = {}
    for jar in sorted([*jars.glob("kafka*.jar"), *jars.glob("connect-*.jar")]):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class"):
                    outer = name.removesuffix(".class").replace("/", ".").partition("$")[0]
                    found[outer] = found.get(outer, b"") + archive.read(name)
    return found


def missing(listed: Mapping[str, tuple[str, ...]], files: Mapping[str, bytes]) -> list[str]:
    """What of ``listed`` is not in ``files``. A member is a constant of its class, behind its length in two bytes."""
    out = [name for name in listed if name not in files]
    return out + [
        f"{name}.{member}"
        for name, members in listed.items()
        for member in members
        if len(member).to_bytes(2, "big") + member.encode() not in files.get(name, b"")
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_classes_and_members_exist(release: str) -> None:
    files = class_files(peers.libs(next(peer for peer in peers.ALL if peer.name == release)))
    assert missing(CLASSES[release], files) == []


def test_a_class_and_a_member_that_do_not_exist_are_reported() -> None:
    listed = {"kafka.log.Gone": (), "kafka.log.Log": ("read", "rea")}
    assert missing(listed, {"kafka.log.Log": b"\x01\x00\x04read"}) == ["kafka.log.Gone", "kafka.log.Log.rea"]
