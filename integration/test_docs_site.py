"""The site of ``docs/`` builds without a warning, is small, is searched by its own script and loads nothing else.

The browser reads it from the disk, as a reader without a network would.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration.diagrams import DIAGRAMS
from integration.harness.browser import REQUIRED, chromium, missing_browser
from integration.harness.wait import wait_for

ROOT = Path(__file__).parents[1]
LIMIT = 5_000_000
"""Bytes that the whole site may have."""
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']([^"']+)|<link\b[^>]*\brel=["'](?:stylesheet|preload|icon)["'][^>]*"""
    r"""\bhref=["']([^"']+)|@import\s+(?:url\()?["']?([^"')]+)|\burl\(["']?([^"')]+)"""
)
"""The addresses that a page or a style sheet loads; links that a reader follows are not among them."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "--quiet", "--builder", "html", "--doctree-dir"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, folder / "doctrees", ROOT / "docs", folder / "html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_document_is_a_page(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert len(pages) > 20
    assert not {str(page) for page in pages if not (site / page).is_file()}


def test_the_site_is_small(site: Path) -> None:
    assert 0 < sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < LIMIT


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    foreign = [
        f"{path.relative_to(site)}: {address}"
        for path in sorted(site.rglob("*"))
        if path.suffix in (".html", ".css")
        for found in LOADED.finditer(path.read_text())
        for address in filter(None, found.groups())
        if re.match(r"(?:https?:)?//", address)
    ]
    assert not foreign


def test_diagrams_are_part_of_the_pages(site: Path) -> None:
    """Their text can be marked and found, and they have the colours of the page."""
    for path in DIAGRAMS:
        title = f"<title>{(ROOT / path).read_text().partition('<title>')[2].partition('<')[0]}</title>"
        assert any(title in page.read_text() for page in site.rglob("*.html")), path
        assert not (site / "_images" / Path(path).name).exists()


def test_the_search_has_an_index_of_its_own(site: Path) -> None:
    assert "watermark" in (site / "searchindex.js").read_text()


def test_commands_can_be_copied(site: Path) -> None:
    assert "copybutton.js" in (site / "delivery.html").read_text()


@pytest.mark.skipif(missing_browser() is not None and not REQUIRED, reason=missing_browser() or "")
def test_the_search_finds_pages_and_paper_shows_the_text_alone(site: Path) -> None:
    with chromium() as browser:
        browser.get(f"{(site / 'search.html').as_uri()}?q=watermark")
        links = "return [...document.querySelectorAll('#search-results li a')].map((link) => link.getAttribute('href'))"
        wait_for(
            lambda: any(link.startswith("course/06-replication.html") for link in browser.execute_script(links)),
            "the chapter on the high watermark among the results",
        )
        browser.get((site / "glossary.html").as_uri())
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        shown = {
            part: browser.execute_script(f"return getComputedStyle(document.querySelector('{part}')).display")
            for part in (".sidebar-drawer", ".toc-drawer", ".content", "table")
        }
        assert (shown[".sidebar-drawer"], shown[".toc-drawer"], shown["table"]) == ("none", "none", "table")
        assert shown[".content"] != "none"
