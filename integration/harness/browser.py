"""A real browser for tests: Debian's Chromium without a window, by its own driver."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

REQUIRED: Final = os.environ.get("KAFKALITE_BROWSER") == "required"
"""Whether a test fails, instead of being skipped, where the browser is missing."""
_PROGRAMS: Final = ("chromium", "chromedriver")


def missing_browser() -> str | None:
    """What is missing of the browser; ``None`` where it is here."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"no {' and no '.join(missing)} (Debian: chromium, chromium-driver)" if missing else None


@contextmanager
def chromium(width: int = 1200, height: int = 1600) -> Iterator[webdriver.Chrome]:
    """A browser with an empty profile, whose window is ``width`` x ``height`` pixels."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    # Without a sandbox, which a container's root cannot have; it sees the page of the test only.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield browser
    finally:
        browser.quit()
