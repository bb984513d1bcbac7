"""Sphinx's configuration of the site that ``make docs`` builds from these pages into ``build/docs``.

Sphinx with MyST and furo, because all three are maintained, their search is a script of the site itself, and they load
nothing from elsewhere. A link to a file of the repository becomes a copy of that file within the site.
"""

from __future__ import annotations

from typing import Final

project = "kafkalite"
extensions: Final = ["myst_parser", "sphinx_copybutton"]
source_suffix: Final = {".md": "markdown"}
myst_heading_anchors = 4
# Blocks of kinds that only this project knows ("walk"), or that need a script ("mermaid"), are shown as text.
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
    f"div.highlight-{language} pre"
    for language in ("sh", "bash", "python", "ini", "toml", "properties", "json", "yaml")
)
