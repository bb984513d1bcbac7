"""The completion scripts: what a shell offers for lines that are not finished."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kafkalite.cli.completion import SHELLS
from kafkalite.cli.main import main

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$(complete -p kafkalite | sed 's/.* -F \\([^ ]*\\) .*/\\1/') kafkalite "${!#}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Calls the function that the script registers, as bash does."""
FISH = 'source "$argv[1]"; complete -C "$argv[2..]"'
OFFERED = [
    ("kafkalite to", {"topics"}),
    ("kafkalite cluster sta", {"start", "status"}),
    ("kafkalite topics --des", {"--describe"}),
    ("kafkalite config --des", {"--describe"}),
    ("kafkalite elect --election-type ", {"preferred", "unclean"}),
    ("kafkalite completion ", {"bash", "fish", "zsh"}),
    ("kafkalite broker start --config server", {"server.properties"}),
    ("kafkalite cluster start --dir some", {"somewhere"}),
]


@pytest.fixture
def scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Path]:
    """Shell → the file with its script, in a folder with a file and a folder."""
    (tmp_path / "server.properties").touch()
    (tmp_path / "somewhere").mkdir()
    found = {}
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        found[shell] = tmp_path / f"completion.{shell}"
        found[shell].write_text(capsys.readouterr().out)
    return found


def run(shell: str, *arguments: str, cwd: Path) -> list[str]:
    """The lines that ``shell`` prints."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_bash_offers_commands_flags_choices_and_files(scripts: dict[str, Path], tmp_path: Path) -> None:
    for line, offered in OFFERED:
        words = line.split(" ")
        assert set(run("bash", "-c", BASH, "bash", str(scripts["bash"]), *words, cwd=tmp_path)) == offered, line


def test_fish_offers_commands_flags_choices_and_files(scripts: dict[str, Path], tmp_path: Path) -> None:
    for line, offered in OFFERED:
        lines = run("fish", "--no-config", "-c", FISH, str(scripts["fish"]), line, cwd=tmp_path)
        assert {each.partition("\t")[0].rstrip("/") for each in lines if each} == offered, line


def test_zsh_registers_its_completion(scripts: dict[str, Path], tmp_path: Path) -> None:
    program = f'autoload -U compinit; compinit -u -d dump; eval "$(<{scripts["zsh"]})"; print $_comps[kafkalite]'
    assert run("zsh", "-fc", program, cwd=tmp_path) == ["_shtab_kafkalite"]


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "csh"])
    assert ended.value.code == 2
    assert "invalid choice: 'csh'" in capsys.readouterr().err
