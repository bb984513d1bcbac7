"""The links of the documents lead to files and headings that exist, and name functions that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration import linked


@pytest.mark.parametrize("document", linked.documents(), ids=lambda path: path.relative_to(linked.ROOT).as_posix())
def test_links_are_alive(document: Path) -> None:
    assert list(linked.complaints(document)) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[here](there.md)", "no such file"),
        ("[here](#gone)", "has no such heading"),
        ("[f](code.py)", ""),
        ("[`C.m`](code.py)", ""),
        ("[the class, and more](code.py)", ""),
        ("[`C.gone`](code.py)", "does not define it"),
        ("`kafkalite/gone.py`", "does not exist"),
        ("`kafkalite/log/log.py`", ""),
        ("[here](#a-heading-of-two)", ""),
        ("[out](https://kafka.apache.org/#gone)", ""),
        ("```\n[here](there.md)\n```", ""),
    ],
)
def test_what_is_found(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("def f(): ...\n\n\nclass C:\n    def m(self): ...\n")
    document = tmp_path / "a.md"
    document.write_text(f"# A `heading` of two\n\n{text}\n")
    found = list(linked.complaints(document))
    assert len(found) == bool(complaint)
    assert complaint in "".join(found)
