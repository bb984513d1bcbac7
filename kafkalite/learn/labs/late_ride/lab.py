"""The student runs a job that leaves out a late event, and finds the delay with which it does not.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.window_counts import clock, minute_of, table
from kafkalite.learn.workspace import Workspace

SOURCE, SHORT, LONG = "taxi-rides", "counts-10", "counts-all"
RIDES = (
    "10:01 ann",
    "10:04 bob",
    "10:07 cid",
    "10:12 ann",
    "10:16 dora",
    "10:31 bob",
    "10:08 eve",
    "10:33 ann",
)
LATE = "10:08 eve"
WINDOW, NOW = "10:00", "10:30"
"""The window of the late ride, and the one that is open when it arrives."""


class LateRide:
    """Right: one result lacks the late ride, the other one has all rides."""

    chapter = 13
    kind = LabKind.GUIDED
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """The rides, and two empty topics for results."""
        for topic in (SOURCE, SHORT, LONG):
            workspace.create_topic(topic)
        workspace.produce(SOURCE, [(None, ride) for ride in RIDES])

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the counts in the two topics with the rides."""
        short, long = (table(workspace.files(topic).records()) for topic in (SHORT, LONG))
        ran, whole = 0 < sum(short.values()) < len(RIDES), sum(long.values()) == len(RIDES)
        return [
            LabFinding(
                ran,
                f"{SHORT}: {told(short)}.",
                "" if ran else "Run the job with --delay 10 and --to counts-10: it leaves a ride out.",
            ),
            LabFinding(
                whole,
                f"{LONG}: {told(long)}.",
                ""
                if whole
                else f"All {len(RIDES)} rides must be counted. Which window closes too early, and by how much?",
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the windows of the job that waits ten minutes."""
        counts = table(workspace.files(SHORT).records())
        minutes = [minute_of(ride) for ride in RIDES if ride != LATE]
        in_time = {start: sum(clock(each - each % 10) == start for each in minutes) for start in (WINDOW, NOW)}
        more = [start for start in (WINDOW, NOW) if counts[start] > in_time[start]]
        return "c" if not more else "a" if more == [WINDOW] else "b"


def told(counts: dict[str, int]) -> str:
    """The counts in words."""
    return ", ".join(f"{start} has {count}" for start, count in sorted(counts.items())) or "no counts"


LAB = LateRide()
