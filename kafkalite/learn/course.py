"""One student at work: starts, checks and ends labs, and keeps the progress.

Answers to: nothing in Kafka. Blocking shell (processes, files).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from kafkalite.common.errors import StartupError
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.dashboard import DashboardProcess
from kafkalite.embedded.security import ClusterSecurity
from kafkalite.embedded.state import read_state, stop_cluster
from kafkalite.learn.catalog import Catalog, LoadedLab
from kafkalite.learn.lab import LabFinding
from kafkalite.learn.lab_text import filled
from kafkalite.learn.progress import LabProgress, Progress, now
from kafkalite.learn.workspace import Workspace

PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
}
"""Properties of every lab's brokers: no waiting, and a misspelt topic is an error instead of a new topic."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a check. ``prediction`` and ``outcome`` are letters; ``outcome`` is empty until the lab is done."""

    findings: list[LabFinding]
    prediction: str = ""
    outcome: str = ""

    @property
    def done(self) -> bool:
        """Whether every finding is right."""
        return all(finding.right for finding in self.findings)


class Course:
    """The labs of ``catalog`` with the progress and the cluster in the state directory."""

    def __init__(self, catalog: Catalog, state: Path) -> None:
        self.catalog = catalog
        self.progress = Progress.read(state)
        self._attempt = state / "attempt"

    @property
    def directory(self) -> Path:
        """The directory of the running lab's cluster."""
        return self._attempt / "cluster"

    def start(self, name: str, *, dashboard: bool = True) -> str:
        """Stop the running lab, start ``name`` on a new cluster, and return the address of its dashboard."""
        loaded = self.catalog.load(name)
        self.stop()
        shutil.rmtree(self._attempt, ignore_errors=True)
        needs = loaded.lab.needs
        cluster = LocalCluster(
            self.directory,
            needs.brokers,
            overrides={**PROPERTIES, **dict(needs.properties)},
            detached=True,
            security=ClusterSecurity.create(self.directory) if needs.secure else None,
            metrics=True,
        )
        address = ""
        try:
            cluster.start()
            self.prepare(loaded, Workspace(cluster, self._attempt))
            if dashboard:
                address = DashboardProcess.start(self.directory).address
        except BaseException:
            cluster.stop()
            raise
        self.progress.current = name
        self.progress.write()
        return address

    def prepare(self, loaded: LoadedLab, workspace: Workspace) -> None:
        """Set up a lab on a cluster, and begin a new attempt in the progress."""
        loaded.lab.prepare(workspace)
        record = self.progress.of(loaded.name)
        record.started, record.prediction, record.hints = now(), "", 0
        self.progress.write()

    def running(self) -> LoadedLab:
        """The lab that was started last. Raises :class:`StartupError` if none runs."""
        if not self.progress.current:
            raise StartupError("no lab is running: kafkalite learn start LAB")
        return self.catalog.load(self.progress.current)

    def workspace(self, answer: str = "") -> Workspace:
        """The running lab's workspace. Raises :class:`StartupError` if its cluster is gone."""
        if read_state(self.directory) is None:
            raise StartupError("the cluster of the lab is gone: kafkalite learn reset")
        return Workspace(LocalCluster.running(self.directory), self._attempt, answer)

    def predict(self, loaded: LoadedLab, letter: str) -> None:
        """Keep a prediction. Raises :class:`StartupError` for an unknown letter, or if there is one already."""
        record = self.progress.of(loaded.name)
        if letter not in loaded.text.choices:
            raise StartupError(f"no answer {letter!r}: choose one of {', '.join(loaded.text.choices)}")
        if record.prediction:
            raise StartupError(f"the prediction is {record.prediction!r} already; kafkalite learn reset begins again")
        record.prediction = letter
        self.progress.write()

    def check(self, loaded: LoadedLab, workspace: Workspace) -> Checked:
        """Look at the real state; the lab is done if the student has predicted, and all findings are right."""
        record = self.progress.of(loaded.name)
        record.checks += 1
        findings = [_prediction(loaded, record), *loaded.lab.check(workspace)]
        checked = Checked(findings, record.prediction)
        if checked.done:
            outcome = loaded.lab.outcome(workspace)
            if not record.done:
                record.done, record.came_true = now(), outcome == record.prediction
            checked = Checked(findings, record.prediction, outcome)
        self.progress.write()
        return checked

    def hint(self, loaded: LoadedLab, workspace: Workspace) -> tuple[int, str]:
        """The number and the text of the next hint; after the last hint, the last one again."""
        record = self.progress.of(loaded.name)
        record.hints = min(record.hints + 1, len(loaded.text.hints))
        self.progress.write()
        return record.hints, filled(loaded.text.hints[record.hints - 1], workspace.values())

    def stop(self) -> bool:
        """Stop the running lab's cluster; ``False`` if no lab is running. The progress stays."""
        if read_state(self.directory) is not None:
            stop_cluster(self.directory)
        was_running = bool(self.progress.current)
        self.progress.current = ""
        if was_running:
            self.progress.write()
        return was_running


def _prediction(loaded: LoadedLab, record: LabProgress) -> LabFinding:
    if record.prediction:
        return LabFinding(True, f"You have predicted {record.prediction}.")
    letters = "|".join(loaded.text.choices)
    return LabFinding(False, "There is no prediction.", f"Predict before you look: kafkalite learn predict {letters}")
