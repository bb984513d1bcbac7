"""Files that grow, are renamed, or are copied and cut: every line is read once, and records stay whole."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kafkalite.pipelines.connect.file_entries import Entries, FileEntry, FileLossError
from kafkalite.pipelines.connect.growing import FileRange, GrowingFiles, into_tasks, ranges_between, read_range
from kafkalite.pipelines.connect.joined_lines import JoinedLines


class Tail:
    """A query over a folder of logs, one micro-batch at a time."""

    def __init__(self, folder: Path, pattern: str = "*.log", *, joined: JoinedLines | None = None) -> None:
        self.folder = folder
        self.files = GrowingFiles([str(folder / pattern)], joined, copies=True)
        self.known: Entries = {}

    def plan(self, most: int | None = None) -> Entries:
        """The end offset of the next micro-batch."""
        return self.files.ends(self.known, most)

    def read(self, most: int | None = None, plan: Entries | None = None) -> str:
        """The next micro-batch."""
        ends = self.plan(most) if plan is None else plan
        ranges = ranges_between(self.known, ends)
        data = b"".join(block for each in ranges for _, block in read_range(each, 8, copies=True))
        if ranges:
            self.known = ends
        return data.decode()

    def write(self, text: str, name: str = "a.log") -> None:
        """Add to a file."""
        with (self.folder / name).open("a") as file:
            file.write(text)

    def copy_and_truncate(self, copy: str = "a.log.1", name: str = "a.log") -> None:
        """Rotate the log like logrotate."""
        shutil.copy(self.folder / name, self.folder / copy)
        with (self.folder / name).open("r+") as file:
            file.truncate()


PATTERNS = pytest.mark.parametrize("pattern", ["*.log", "*.log*"])


# trap: kafkalite/pipelines/connect/growing.py: A copy of a truncated file is not a new file, and holds the lines that
# the truncation removed.
@PATTERNS
def test_lost_lines_of_a_truncated_file_are_read_from_its_copy(tmp_path: Path, pattern: str) -> None:
    tail = Tail(tmp_path, pattern)
    tail.write("1\n2\n")
    assert tail.read() == "1\n2\n"
    tail.write("3\n")
    tail.copy_and_truncate()
    tail.write("4\n")
    assert tail.read() == "3\n4\n"
    tail.write("5\n")
    assert tail.read() == "5\n"
    assert tail.read() == ""


@PATTERNS
def test_a_copy_of_what_was_read_is_not_read(tmp_path: Path, pattern: str) -> None:
    tail = Tail(tmp_path, pattern)
    tail.write("1\n2\n")
    tail.read()
    shutil.copy(tmp_path / "a.log", tmp_path / "a.log.1")
    assert tail.read() == "", "the file is not cut yet"
    tail.copy_and_truncate()
    assert tail.read() == ""
    tail.write("3\n")
    assert tail.read() == "3\n"
    shutil.move(tmp_path / "a.log.1", tmp_path / "a.log.2")
    tail.copy_and_truncate()
    tail.write("4\n")
    assert tail.read() == "4\n"


# trap: kafkalite/pipelines/connect/growing.py: A copy of a truncated file takes the inode of an older copy.
@PATTERNS
def test_a_copy_in_the_place_of_an_older_one(tmp_path: Path, pattern: str) -> None:
    tail = Tail(tmp_path, pattern)
    tail.write("a long line\n")
    tail.read()
    tail.copy_and_truncate()
    tail.write("1\n")
    assert tail.read() == "1\n"
    tail.write("2\n")
    tail.write("3\n")
    tail.copy_and_truncate()
    tail.write("4\n")
    assert tail.read() == "2\n3\n4\n"
    assert tail.read() == ""


@PATTERNS
def test_a_limit_between_the_copy_and_the_file(tmp_path: Path, pattern: str) -> None:
    tail = Tail(tmp_path, pattern)
    tail.write("1\n")
    tail.read()
    tail.write("2\n3\n")
    tail.copy_and_truncate()
    tail.write("4\n5\n")
    assert [tail.read(most=2) for _ in range(5)] == ["2\n", "3\n", "4\n", "5\n", ""]


# trap: kafkalite/pipelines/connect/growing.py: A file is truncated between planning and reading.
def test_a_file_that_is_cut_between_planning_and_reading(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    tail.write("one\ntwo\nthree\n")
    plan = tail.plan()
    tail.copy_and_truncate()
    assert tail.read(plan=plan) == "one\ntwo\nthree\n"


def test_a_truncation_without_a_copy_is_reported(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    tail.write("one\n")
    plan = tail.plan()
    (tmp_path / "a.log").write_text("")
    with pytest.raises(FileLossError, match=r"a\.log, bytes 0 to 4: the file was cut before it was read to its end"):
        tail.read(plan=plan)


def test_a_renamed_file_is_read_beside_its_successor(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    tail.write("1\n")
    tail.read()
    tail.write("2\n")
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    tail.write("3\n")
    assert tail.read() == "2\n3\n"


class Settling:
    """Records that go on with lines that are indented; a file is quiet when the test says so."""

    def __init__(self) -> None:
        self.time = 0.0
        self.joined = JoinedLines(re.compile(rb"\s"), 5.0, lambda: self.time)

    def later(self) -> None:
        """All has been quiet for long."""
        self.time = 1e12


# trap: kafkalite/pipelines/connect/joined_lines.py: The end of a micro-batch cuts a stack trace in two.
def test_a_record_waits_for_its_lines(tmp_path: Path) -> None:
    settling = Settling()
    tail = Tail(tmp_path, joined=settling.joined)
    tail.write("1\n a\n2\n")
    assert tail.read() == "1\n a\n"
    tail.write(" b\n")
    assert tail.read() == "", "more may come"
    tail.write(" c\n3\n")
    assert tail.read() == "2\n b\n c\n"
    settling.later()
    assert tail.read() == "3\n"


def test_records_of_a_renamed_file_go_before_those_of_its_successor(tmp_path: Path) -> None:
    settling = Settling()
    tail = Tail(tmp_path, "*.log*", joined=settling.joined)
    tail.write("1\n2\n")
    assert tail.read() == "1\n"
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    tail.write("3\n4\n")
    assert tail.read() == "", "the renamed file may still get lines of its last record"
    settling.later()
    assert tail.read() == "2\n3\n4\n"


def test_what_a_limit_leaves_goes_before_the_successor(tmp_path: Path) -> None:
    tail = Tail(tmp_path, "*.log*")
    tail.write("11\n12\n")
    tail.plan()
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    tail.write("13\n")
    assert tail.read(4) == "11\n", "what is left of the limit is not for the younger file"
    assert tail.read() == "12\n13\n"


@pytest.mark.parametrize("most", range(1, 12))
def test_a_record_that_is_longer_than_a_micro_batch(tmp_path: Path, most: int) -> None:
    settling = Settling()
    tail = Tail(tmp_path, joined=settling.joined)
    tail.write("1\n a\n b\n2\n c\n")
    batches = [tail.read(most) for _ in range(3)]
    assert batches == ["1\n a\n b\n", "", ""]
    settling.later()
    assert tail.read(most) == "2\n c\n"


def test_a_file_that_begins_with_a_line_that_goes_on(tmp_path: Path) -> None:
    tail = Tail(tmp_path, joined=Settling().joined)
    tail.write(" a\n b\n1\n")
    assert tail.read() == " a\n b\n"


def test_the_files_of_one_log_stay_in_one_task_and_in_their_order() -> None:
    sizes = {"/a.log.2": 1, "/a.log": 5, "/b.log": 2, "/a.log.1": 3, "/c.log": 1}
    ranges = [FileRange(path, FileEntry(path), 0, size) for path, size in sizes.items()]
    tasks = [[each.identity for each in task] for task in into_tasks(ranges, 2)]
    assert tasks == [["/a.log.2", "/a.log", "/a.log.1"], ["/b.log", "/c.log"]]


def test_they_do_where_nothing_is_read_of_the_first() -> None:
    ranges = [FileRange(path, FileEntry(path), 0, 1) for path in ("/a.log.2", "/a.log.1", "/a.log-20261121", "/b.log")]
    tasks = [[each.identity for each in task] for task in into_tasks(ranges, 2)]
    assert tasks == [["/a.log.2", "/a.log.1", "/a.log-20261121"], ["/b.log"]]
