"""Writes the output of the commands into the pages of the course, of the use cases and ``docs/cap.md``.

``python -m integration.course [PAGE…]`` runs the pages on one cluster and writes the output below each command. It
leaves output that matches already, and complains of output that does not and that a writer has shortened. The commands
of ``index.md`` start the cluster of all pages. How a page runs and what matches is told in
:mod:`integration.harness.documented`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from integration.blocks import COURSE_START, COURSE_TEST, ROOT, Block, course_pages
from integration.harness.documented import desk, matches


def filled(text: str, printed: Sequence[tuple[Block, str]]) -> tuple[str, list[str]]:
    """A page's text with what its commands printed, and the shortened outputs that no longer match."""
    wrong = []
    for block, output in reversed(printed):
        if block.output is None or (block.output != "…\n" and matches(block.output, output)):
            continue
        if "…" in block.output and block.output != "…\n":
            wrong.append(f"{block.text}\nshown:\n{block.output}\nprinted:\n{output}")
        else:
            text = text[: block.span[0]] + output + text[block.span[1] :]
    return text, wrong


def main(names: list[str]) -> int:
    wrong = []
    with tempfile.TemporaryDirectory() as folder, desk(Path(folder)) as student:
        chosen = [page for page in course_pages() if page != COURSE_START and (not names or page.stem in names)]
        for page in [COURSE_START, *chosen]:
            text, more = filled(page.read_text(), student.run(page, str(ROOT / COURSE_TEST)))
            page.write_text(text)
            wrong += more
            print(page.relative_to(ROOT), flush=True)
    print("\n".join(wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
