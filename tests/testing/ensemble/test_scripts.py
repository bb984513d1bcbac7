"""Random scripts: the twins of ZooKeeper, with one server and with three, answer alike."""

from __future__ import annotations

from kafkalite.testing.ensemble.scripts import make_script, transcript
from kafkalite.testing.ensemble.targets import EnsembleTarget, MemoryTarget


def test_all_twins_answer_alike() -> None:
    for seed in range(60):
        script = make_script(seed)
        expected = transcript(script, EnsembleTarget(seed, servers=1))
        assert transcript(script, EnsembleTarget(seed, servers=3)) == expected, f"seed {seed}: three servers differ"
        assert transcript(script, MemoryTarget()) == expected, f"seed {seed}: the simple twin differs"
