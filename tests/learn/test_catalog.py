"""Labs are folders: the package's own are whole, a teacher's are added, and a broken one is named with its defect."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.learn.catalog import OWN_LABS, Catalog
from kafkalite.learn.lab_text import LabText, LabTextError, filled

TEXT = """# A title

A story at $bootstrap.

## Predict

Which?

- a) this
- b) that

## Tasks

1. Do it.

## Hints

1. First
   line two.
2. Second.

## What happened

That.

## Sources

KIP-98.
"""
CODE = """
from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds

class Mine:
    chapter, kind, needs = 3, LabKind.PUZZLE, LabNeeds(2)
    def prepare(self, workspace): pass
    def check(self, workspace): return [LabFinding(True, "It is.")]
    def outcome(self, workspace): return "a"

LAB = Mine()
"""


def lab_folder(root: Path, name: str = "my_lab", text: str = TEXT, code: str = CODE) -> Path:
    """A teacher's folder with one lab."""
    (root / name).mkdir()
    (root / name / "lab.md").write_text(text)
    (root / name / "lab.py").write_text(code)
    return root


def test_a_text_is_cut_at_its_headings() -> None:
    text = LabText.parse(TEXT)
    assert (text.title, text.story) == ("A title", "A story at $bootstrap.")
    assert text.choices == {"a": "this", "b": "that"}
    assert text.hints == ("First line two.", "Second.")


def test_known_names_are_filled_in_and_others_stay() -> None:
    assert filled("$bootstrap $HOME $5", {"bootstrap": "here:1"}) == "here:1 $HOME $5"


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (TEXT.replace("# A title", "A title"), "the first line"),
        (TEXT.replace("## Hints", "## Help"), "no section '## Hints'"),
        (TEXT + "\n## More\n\nx\n", "unknown section '## More'"),
        (TEXT.replace("- b) that", ""), "two lines or more"),
        (TEXT.replace("1. First", "First").replace("2. Second.", ""), "'1. hint'"),
    ],
)
def test_a_text_without_a_part_is_refused(broken: str, complaint: str) -> None:
    with pytest.raises(LabTextError, match=complaint):
        LabText.parse(broken)


@pytest.mark.parametrize("name", Catalog().names())
def test_a_lab_of_the_package_is_whole(name: str) -> None:
    loaded = Catalog().load(name)
    assert 1 <= loaded.lab.chapter <= 14
    assert loaded.text.choices
    assert dict(loaded.lab.needs.properties) is not None


def test_each_folder_of_the_package_is_a_lab() -> None:
    folders = [each for each in OWN_LABS.iterdir() if each.is_dir() and each.name != "__pycache__"]
    assert len(folders) == len(Catalog().names())
    assert all({"lab.py", "lab.md"} <= {file.name for file in folder.iterdir()} for folder in folders)


def test_a_teacher_adds_a_lab_by_a_folder(tmp_path: Path) -> None:
    catalog = Catalog([OWN_LABS, lab_folder(tmp_path)])
    assert "my-lab" in [each.name for each in catalog.labs()]
    assert catalog.load("my-lab").lab.needs.brokers == 2


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("x = ", "lab.py: SyntaxError"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("x = 1", "no LAB"),
        (CODE.replace("def check", "def look"), "LAB has no check"),
        (CODE.replace("LabNeeds(2)", "LabNeeds(4)"), "4 brokers"),
    ],
)
def test_a_broken_lab_is_named_with_its_defect(code: str, complaint: str, tmp_path: Path) -> None:
    catalog = Catalog([lab_folder(tmp_path, code=code)])
    with pytest.raises(StartupError, match=complaint) as raised:
        catalog.load("my-lab")
    assert str(tmp_path / "my_lab" / "lab.py") in str(raised.value)


def test_a_lab_without_a_text_is_named(tmp_path: Path) -> None:
    (lab_folder(tmp_path) / "my_lab" / "lab.md").unlink()
    with pytest.raises(StartupError, match=r"lab\.md"):
        Catalog([tmp_path]).load("my-lab")


def test_an_unknown_lab_and_an_unknown_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="no lab 'gone'"):
        Catalog().load("gone")
    with pytest.raises(StartupError, match="no folder"):
        Catalog([tmp_path / "gone"])
