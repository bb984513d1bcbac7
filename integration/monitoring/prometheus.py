"""A Prometheus server of Debian's package for tests, with the shipped configuration in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from integration.harness.wait import wait_for
from kafkalite.embedded.processes import ServerProcess, free_ports

MONITORING: Final = Path(__file__).resolve().parents[2] / "docker" / "monitoring"
REQUIRED: Final = os.environ.get("KAFKALITE_PROMETHEUS") == "required"
"""Whether a test fails, instead of being skipped, where Prometheus is missing."""
MISSING: Final = (
    None
    if shutil.which("prometheus") and shutil.which("promtool")
    else ("prometheus and promtool are missing: apt-get install prometheus")
)
INTERVAL: Final = "1s"
"""Of scrapes and of evaluations."""


class Prometheus:
    """Scrapes ``targets`` every second, with the shipped rules, which here wait for nothing before they fire.

    ``more`` are lines beside the targets. It is started by ``with`` and killed at its end.
    """

    def __init__(self, folder: Path, targets: Sequence[str], more: str = "") -> None:
        self._folder = folder
        self._port = free_ports(1)[0]
        config = (MONITORING / "prometheus.yml").read_text()
        config = re.sub(r"_interval: \d+s", f"_interval: {INTERVAL}", config)
        config = re.sub(r"scrape_timeout: \d+s", f"scrape_timeout: {INTERVAL}", config)
        config, count = re.subn(r"targets: \[.*\]", f"targets: {json.dumps(list(targets))}", config)
        assert count == 1
        (folder / "prometheus.yml").write_text(config + more)
        (folder / "rules.yml").write_text(re.sub(r"for: \d+m", "for: 0s", (MONITORING / "rules.yml").read_text()))

    def __enter__(self) -> Self:
        self._process = ServerProcess.spawn(
            [
                "prometheus",
                f"--config.file={self._folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            self._folder / "prometheus.log",
            mark=str(self._folder / "prometheus.yml"),
        )
        wait_for(lambda: self._get("/-/ready"), f"Prometheus serves (log in {self._folder})", timeout=60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The vector that ``expression`` gives now; empty if it gives none. Raises ``OSError`` if it is malformed."""
        result = self._api("query", query=expression)["result"]
        assert isinstance(result, list)
        return result

    def expressions(self) -> list[str]:
        """Those of all rules, as Prometheus has read them."""
        return [rule["query"] for group in self._api("rules")["groups"] for rule in group["rules"]]

    def firing(self, alert: str) -> list[Mapping[str, str]]:
        """The labels of each firing alert of this name."""
        return [
            each["labels"]
            for each in self._api("alerts")["alerts"]
            if each["labels"]["alertname"] == alert and each["state"] == "firing"
        ]

    def _api(self, path: str, **parameters: str) -> Any:
        return json.loads(self._get(f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))["data"]

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as response:
            data = response.read()
            assert isinstance(data, bytes)
            return data
