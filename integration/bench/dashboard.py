"""Time from a change in ZooKeeper to the pixel, in a real browser: ``python -m integration.bench.dashboard``.

Three brokers, one topic of ``--partitions`` partitions, and a group with an offset in each, all shown on an open page.
Each change writes one offset of the group that is in sight. The time runs from before the write until the frame after
the one in which the page shows the new number, by the clock of the machine on both sides.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from selenium import webdriver

from integration.conftest import TEST_OVERRIDES
from integration.harness.browser import chromium
from integration.harness.commands import command
from integration.harness.wait import wait_for
from integration.test_dashboard import dashboard, text
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient

TOPIC, GROUP = "orders", "billing"
FIRST = 1_000_000_000
"""The first offset that is written; each later one is greater by one, so that the text tells which write it shows."""
# The frame after the one that draws the text begins when the text is on the screen.
WATCH = """
window.seen = {};
const look = () => {
  const row = document.querySelector("#groups div.virtual tbody tr, #groups details div.scroll:last-child tbody tr");
  const shown = row?.cells[2].textContent.replaceAll(",", "");
  if (shown && !(shown in window.seen)) {
    window.seen[shown] = 0;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      window.seen[shown] = performance.timeOrigin + performance.now();
    }));
  }
};
const what = { childList: true, subtree: true, characterData: true };
new MutationObserver(look).observe(document.getElementById("groups"), what);
"""


def main() -> None:
    """Measure, and print the percentiles in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(Path(folder), overrides=TEST_OVERRIDES, metrics=True)
        try:
            cluster.start()
            topic = ("--topic", TOPIC, "--partitions", arguments.partitions, "--replication-factor", 3)
            command("topics", "--bootstrap-server", cluster.bootstrap, "--create", *topic)
            loop = BlockingLoop()
            client = KazooZkClient(loop.call_from_thread, cluster.zookeeper)
            loop.run(client.start())
            parent = f"/consumers/{GROUP}"
            for path in (parent, f"{parent}/offsets", f"{parent}/offsets/{TOPIC}"):
                loop.run(client.create(path))
            for partition in range(arguments.partitions):
                loop.run(client.create(f"{parent}/offsets/{TOPIC}/{partition}", b"0"))
            with dashboard("--zookeeper", cluster.zookeeper) as address, chromium() as browser:
                browser.get(address)
                path = f"{parent}/offsets/{TOPIC}/0"
                ready = f"{arguments.partitions} partitions"
                wait_for(lambda: ready in text(browser, "topics"), "the page shows the topic", timeout=60)
                wait_for(lambda: path in text(browser, "groups"), "the page shows the group", timeout=60)
                time.sleep(10)  # the elections of the new partitions end, and offsets come in
                times = measure(browser, lambda data: loop.run(client.set(path, data)), arguments.changes)
            loop.run(client.close())
        finally:
            cluster.close()
    report(times, arguments.partitions)


def measure(browser: webdriver.Chrome, write: Callable[[bytes], object], changes: int) -> list[float]:
    """Milliseconds of each change."""
    browser.execute_script(WATCH)
    started: dict[str, float] = {}
    for number in range(FIRST, FIRST + changes):
        started[str(number)] = time.time() * 1000
        write(str(number).encode())
        time.sleep(random.uniform(0.1, 0.4))
    time.sleep(1)  # the last change is drawn
    seen: dict[str, float] = browser.execute_script("return window.seen")
    return sorted(seen[number] - at for number, at in started.items() if seen.get(number))


def report(times: list[float], partitions: int) -> None:
    """Print the percentiles and the load of the machine."""
    at = {name: times[min(len(times) - 1, int(share * len(times)))] for name, share in SHARES.items()}
    figures = ", ".join(f"{name} {value:.0f} ms" for name, value in at.items())
    print(f"{partitions} partitions, {len(times)} changes seen: {figures}; load {os.getloadavg()[0]:.1f}")


SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "most": 1.0}

if __name__ == "__main__":
    main()
