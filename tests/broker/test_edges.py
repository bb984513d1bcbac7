"""What a broker is told of the machine that it runs on."""

from __future__ import annotations

from pathlib import Path

from kafkalite.broker.edges import read_boot_id


def test_the_boot_id_is_that_of_linux(tmp_path: Path) -> None:
    file = tmp_path / "boot_id"
    file.write_text("7a2c1d40-54d4-4b4c-9d5b-0f7f4a6a5b11\n")
    assert read_boot_id(str(file)) == "7a2c1d40-54d4-4b4c-9d5b-0f7f4a6a5b11"


def test_without_a_boot_id_the_boot_is_unknown(tmp_path: Path) -> None:
    assert read_boot_id(str(tmp_path / "none")) == ""
