"""The frame of every diagram: an SVG whose colour is that of the text around it.

A page of the site holds the text of the SVG, so that ``currentColor`` is the page's. A file that is shown by itself, or
as an image, has the colours of ``svg:root``, dark ones where the reader prefers them.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

SMALL: Final = 11
"""Size of most text, in pixels."""
_PER_CHARACTER: Final = 0.56
"""Mean width of a character of a sans-serif font, as a share of its size."""
_STYLE: Final = (
    "svg:root{color:#24292f;background:#fff;--color-background-primary:#fff}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3;background:#0d1117;--color-background-primary:#0d1117}}"
)
BOX: Final = 'rx="6" fill="currentColor" fill-opacity=".07" stroke="currentColor" stroke-opacity=".6"'
"""The attributes of a box beside its place and size."""
OVER_LINES: Final = (
    'style="paint-order:stroke;stroke:var(--color-background-primary,#fff);stroke-width:4px;stroke-linejoin:round"'
)
"""The attribute of a group of texts that stand over lines: each letter has a rim of the colour of the page."""


def svg(name: str, title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """The SVG of the file ``name``; ``marker-end="url(#…)"`` with :func:`arrowhead` ends a line with an arrow."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" class="diagram" font-family="sans-serif" font-size="{SMALL}" fill="currentColor">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<defs><marker id="{arrowhead(name)}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
            'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
            *parts,
            "</svg>",
            "",
        ]
    )


def arrowhead(name: str) -> str:
    """The id of the arrowhead in the file ``name``; another one in each file, because a page may hold several."""
    return f"{name.removesuffix('.svg')}-end"


def text(x: float, y: float, content: str, more: str = "") -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}"{" " + more if more else ""}>{escape(content, quote=False)}</text>'


def width_of(content: str, size: float = SMALL) -> float:
    """About how many pixels wide ``content`` is; which font the reader has is not known."""
    return len(content) * size * _PER_CHARACTER
