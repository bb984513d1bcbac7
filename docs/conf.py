"""Sphinx's configuration of the site that ``make docs`` builds from these pages into ``build/docs``.

Sphinx with MyST and furo, because all three are maintained, their search is a script of the site itself, and they load
nothing from elsewhere. A link to a file of the repository becomes a copy of that file within the site.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "kafkalite"
extensions: Final = ["myst_parser", "sphinx_copybutton"]
source_suffix: Final = {".md": "markdown"}
myst_heading_anchors = 4
# Blocks of kinds that only this project knows ("walk", "floors", "log") and "mermaid", which needs a script, are text.
suppress_warnings: Final = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = "kafkalite"
html_static_path: Final = ["_static"]
html_css_files: Final = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
# Output has no button, because only commands and programs are typed again.
copybutton_selector = ", ".join(
    f"div.highlight-{language} pre" for language in ("sh", "python", "ini", "toml", "properties", "json", "yaml")
)


def setup(app: Sphinx) -> None:
    # Before Sphinx collects the images of a page, because those are copied.
    app.connect("doctree-read", _inline_diagrams, priority=100)
    app.connect("build-finished", _drop_source_maps)


def _inline_diagrams(app: Sphinx, page: nodes.document) -> None:
    """Put generated diagrams into the page, so that they have its colours and their text can be marked and found."""
    for image in list(page.findall(nodes.image)):
        path = Path(app.env.doc2path(app.env.docname)).parent / image["uri"]
        if path.suffix == ".svg" and 'class="diagram"' in (text := path.read_text()):
            app.env.note_dependency(str(path))
            image.replace_self(nodes.raw("", f'<span class="diagram">{text}</span>', format="html"))


def _drop_source_maps(app: Sphinx, error: Exception | None) -> None:
    """Only the authors of the theme need them."""
    if error is None:
        for path in (Path(app.outdir) / "_static").rglob("*.map"):
            path.unlink()
