"""The student finds records whose timestamps are in seconds.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

import time

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "readings"
RECORDS = 6
WANTED = 2
RETENTION = "retention.ms"
WEEK_MS = str(7 * 24 * 3600 * 1000)
STAMP = "message.timestamp.type"


class GoneTooSoon:
    """Right: the broker stamps the records, the retention is as it was, and new records are in the log."""

    chapter = 10
    kind = LabKind.PUZZLE
    needs = LabNeeds(properties=(("log.retention.check.interval.ms", "500"),))

    def prepare(self, workspace: Workspace) -> None:
        """Records of the year 1970."""
        workspace.create_topic(TOPIC, config={RETENTION: WEEK_MS})
        seconds = int(time.time())
        values = [(None, f"{20 + number}.5") for number in range(RECORDS)]
        workspace.produce(TOPIC, values, timestamp=seconds)
        workspace.wait(lambda: workspace.bounds(TOPIC)[0] == RECORDS, f"retention of {TOPIC}")
        workspace.note(seconds=seconds)

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look at the configuration in ZooKeeper, and at the offsets and timestamps in the log."""
        config, (start, end) = workspace.config(TOPIC), workspace.bounds(TOPIC)
        retention, stamp = config.get(RETENTION, "the broker's"), config.get(STAMP, "CreateTime")
        kept, stamped = retention == WEEK_MS, stamp == "LogAppendTime"
        left = [record for record in workspace.files(TOPIC).records() if record.offset >= start]
        enough = len(left) >= WANTED
        policy = config.get("cleanup.policy", "delete")
        return [
            LabFinding(
                kept and policy == "delete",
                f"{RETENTION} is {retention}, cleanup.policy is {policy}.",
                "" if kept and policy == "delete" else f"Records must go after seven days: {WEEK_MS}, and delete.",
            ),
            LabFinding(
                stamped,
                f"{STAMP} is {stamp}.",
                "" if stamped else "Records are as old as their timestamps say. Whose clock sets those?",
            ),
            LabFinding(
                enough,
                f"{end} readings were written, and {len(left)} are left.",
                "" if enough else f"Have the program write {WANTED} readings or more.",
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the first records: their files were seconds old, so that only their timestamps can have ended them."""
        return "b" if workspace.bounds(TOPIC)[0] >= RECORDS else "a"


LAB = GoneTooSoon()
