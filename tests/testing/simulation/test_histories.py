"""Fixed histories of whole clusters: nothing acknowledged is lost in them, and one seed is one history everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalite.testing.simulation.__main__ import main, run_alone
from kafkalite.testing.simulation.plan import Plan, draw_plan
from kafkalite.testing.simulation.scenarios import SCENARIOS
from kafkalite.testing.simulation.workload import CLIENTS

ROOT = Path(__file__).parents[3]
HISTORIES = 60
TOGETHER = 5
"""Histories of one test: small enough that two workers share them evenly."""


@pytest.mark.parametrize("first", range(1, HISTORIES + 1, TOGETHER))
def test_histories_have_no_violations(first: int) -> None:
    """A failure names the seed; ``python -m kafkalite.testing.simulation --seed N --trace`` tells its story."""
    outcomes = [run_alone(draw_plan(seed)) for seed in range(first, first + TOGETHER)]
    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    assert all(outcome.acknowledged for outcome in outcomes)


def test_every_scenario_and_every_kind_of_client_is_drawn() -> None:
    plans = [draw_plan(seed) for seed in range(1, 300)]
    assert {step.scenario for plan in plans for step in plan.steps} == set(SCENARIOS)
    assert {client.kind for plan in plans for client in plan.clients} == set(CLIENTS)


def test_one_seed_is_one_history_for_every_hash_seed() -> None:
    def digest(hash_seed: str) -> str:
        found = subprocess.run(
            [sys.executable, "-m", "kafkalite.testing.simulation", "--seed", "7"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return found.stdout.rpartition("trace ")[2].strip()

    digests = {digest(hash_seed) for hash_seed in ("0", "1", "4711")}
    assert digests == {run_alone(draw_plan(7)).digest}


def test_a_step_that_is_left_out_leaves_the_others_as_they_are() -> None:
    plan = draw_plan(5)
    kept = plan.keep(steps=range(1, len(plan.steps)), clients=range(len(plan.clients)))
    assert kept.steps == plan.steps[1:]
    assert kept.clients == plan.clients


def test_a_violation_ends_with_exit_code_1_and_names_the_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_brokers(seed: int) -> Plan:
        return Plan(seed, 1, {"listeners": "PLAINTEXT://elsewhere:1"}, (), (), ())

    monkeypatch.setattr("kafkalite.testing.simulation.__main__.draw_plan", without_brokers)
    assert main(["--seeds", "3..4"]) == 1
    said = capsys.readouterr().out
    assert "seed 3 at revision" in said
    assert "2 histories, 2 violations" in said.splitlines()[-1]
