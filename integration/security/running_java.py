"""Pairs of :mod:`integration.security.running_pair` with Java's clients, all in one JVM."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from integration.harness.java_consumer import java_program
from integration.security.running_pair import RunningPair


class JavaPairs:
    """A JVM; its warnings go to a file in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pairs: dict[str, RunningPair] = {}
        with (folder / "java.log").open("wb") as log:
            self._process = subprocess.Popen(
                java_program("RunningClients"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, pair: RunningPair) -> None:
        """Run the pair until it is stopping and closing."""
        self._pairs[pair.name] = pair
        path = self._folder / f"{pair.name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in pair.login.java.items()))
        self._say("open", pair.name, pair.topic, str(pair.partition), str(path))
        threading.Thread(target=self._end, args=(pair,), daemon=True).start()

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.wait()

    def _end(self, pair: RunningPair) -> None:
        pair.stopping.wait()
        self._say("stop", pair.name)
        pair.closing.wait()
        self._say("close", pair.name)

    def _say(self, *words: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(" ".join(words) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the JVM has ended, at the end of the test

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, what, value = line.rstrip("\n").split(" ", 2)
            pair = self._pairs[name]
            if what == "sent":
                pair.sent = int(value) + 1
            elif what == "acked":
                pair.acknowledged.append(int(value))
            elif what == "read":
                pair.read.append(int(value))
            elif what == "failed":
                pair.failures.append(value)
            else:
                pair.errors.append(value)
