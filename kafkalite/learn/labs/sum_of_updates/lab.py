"""The student reads the results of a job as a table.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

import json

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.window_counts import run, table
from kafkalite.learn.workspace import Workspace

SOURCE, RESULTS = "trips", "trip-counts"
TRIPS = (3, 1, 4, 2)
"""How many rides each window has."""
DELAY = 60


class SumOfUpdates:
    """Right: the answer is the number of rides, and the topic is compacted."""

    chapter = 13
    kind = LabKind.PUZZLE
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """Rides, and what the job writes about them when it runs twice."""
        for topic in (SOURCE, RESULTS):
            workspace.create_topic(topic)
        rides = [f"11:{window}{minute} ride" for window, count in enumerate(TRIPS) for minute in range(count)]
        workspace.produce(SOURCE, [(None, ride) for ride in rides])
        for _ in range(2):
            run(workspace.cluster.bootstrap, SOURCE, RESULTS, DELAY)
        records = workspace.files(RESULTS).records()
        workspace.note(sum=sum(int(each.value or b"0") for each in records), records=len(records))

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the answer with the rides in the log, and look at the topic's configuration."""
        answer, notes = workspace.answer, workspace.notes()
        wanted = len(workspace.files(SOURCE).records())
        if not answer:
            why = "Give the number of rides: kafkalite learn check NUMBER"
        elif answer == notes["sum"]:
            why = "That is the report's sum: it adds up counts that replace each other."
        elif answer == notes["records"]:
            why = "That is the number of records: the job has written each count twice."
        else:
            why = "Take the last count of each window, and add these up."
        right = answer == str(wanted)
        config = json.loads(workspace.tree.get(f"/config/topics/{RESULTS}") or b"{}").get("config", {})
        policy = config.get("cleanup.policy", "delete")
        compacts = policy == "compact"
        told = f"The answer is {answer}." if answer else "There is no answer."
        return [
            LabFinding(right, told, "" if right else why),
            LabFinding(
                compacts,
                f"cleanup.policy of {RESULTS} is {policy}.",
                "" if compacts else "It keeps all counts, or deletes by age; a table needs the last one of each key.",
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """Compare the table with the rides."""
        counted = sum(table(workspace.files(RESULTS).records()).values())
        return "b" if counted == len(workspace.files(SOURCE).records()) else "a"


LAB = SumOfUpdates()
