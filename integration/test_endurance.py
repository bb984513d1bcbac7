"""An hour on three real processes: no acknowledged record is lost, and no measure of the cluster grows.

``KAFKALITE_SOAK=1`` (``make soak``) runs it for ``KAFKALITE_SOAK_MINUTES`` minutes (60), with a fault a minute.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from xml.etree import ElementTree

import pytest

from integration.conftest import SOAK
from integration.endurance.faults import VETERAN
from integration.endurance.plot import Panel, ceiling, draw
from integration.endurance.run import Endurance, Result
from integration.endurance.samples import BrokerSample, Sample
from integration.endurance.trend import Bound, judge, markdown, slope

MINUTES = float(os.environ.get("KAFKALITE_SOAK_MINUTES", "60"))
HOUR = [5.0 * i for i in range(720)]


def growing(minutes: float = 60.0, **slopes: float) -> Result:
    """A result whose measures rise by ``slopes`` an hour; the other measures are constant."""
    samples = []
    for i in range(int(minutes * 12)):
        hours = i / 720

        def at(name: str, level: float, hours: float = hours) -> float:
            return level + slopes.get(name, 0.0) * hours

        broker = BrokerSample(
            pid=9,
            age=i * 5.0,
            rss=at("rss", 60),
            pss=50,
            descriptors=int(at("descriptors", 150)),
            others=int(at("others", 40)),
            threads=int(at("threads", 8)),
            children=int(at("children", 1)),
        )
        zookeeper = {
            "znodes": int(at("znodes", 300)),
            "watches": int(at("watches", 200)),
            "connections": int(at("connections", 6)),
        }
        samples.append(Sample(i * 5.0, {VETERAN: broker}, zookeeper, at("log_mib", 20), int(at("log_files", 500))))
    return Result(minutes, samples, [(60.0, "kill -9 of broker 1")])


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], 0.0),
        ([(1.0, 5.0)], 0.0),
        ([(at, 3.0) for at in HOUR], 0.0),
        ([(at, 3.0 + at / 100) for at in HOUR], 0.01),
        # Each tenth sample is an outlier.
        ([(at, 1000.0 if i % 10 == 3 else 3.0 + at / 100) for i, at in enumerate(HOUR)], 0.01),
    ],
)
def test_slope_is_that_of_most_samples(points: list[tuple[float, float]], expected: float) -> None:
    """For few or many samples, flat or not, with outliers."""
    assert math.isclose(slope(points), expected, abs_tol=2e-4)


def test_a_rise_during_the_warm_up_does_not_count() -> None:
    """A rise after it counts if it exceeds the bound."""
    noise = random.Random(1)
    warm = [(at, min(at, 900.0) + noise.uniform(-20, 20)) for at in HOUR]
    assert not judge("flat", "", warm, 900.0, 3600.0, Bound(20)).grows
    verdict = judge("rising", "", [(at, at / 10) for at in HOUR], 900.0, 3600.0, Bound(269.0, 0.5))
    assert verdict.grows
    assert math.isclose(verdict.rise, 270.0, abs_tol=1e-6)
    assert "**grows**" in markdown([verdict])
    assert not judge("rising", "", [(at, at / 10) for at in HOUR], 900.0, 3600.0, Bound(271.0)).grows
    with pytest.raises(ValueError, match="no samples"):
        judge("none", "", [], 900.0, 3600.0, Bound(1))


def test_steady_run_has_no_growth() -> None:
    """All measures are constant."""
    assert [verdict.name for verdict in growing().verdicts() if verdict.grows] == []


@pytest.mark.parametrize(
    ("measure", "an_hour", "named"),
    [
        ("rss", 20.0, "RSS of broker 3"),
        ("descriptors", 60.0, "file descriptors of broker 3"),
        ("others", 18.0, "descriptors of other than log files of broker 3"),
        ("threads", 8.0, "threads of broker 3"),
        ("children", 4.0, "child processes of broker 3"),
        # One for each deleted topic is left.
        ("znodes", 180.0, "znodes"),
        ("watches", 180.0, "watches"),
        ("connections", 8.0, "ZooKeeper connections"),
        ("log_mib", 10.0, "log directories"),
        ("log_files", 180.0, "log files"),
    ],
)
def test_leak_is_found_and_named(measure: str, an_hour: float, named: str) -> None:
    """In each case one measure grows a little each minute."""
    assert [verdict.name for verdict in growing(**{measure: an_hour}).verdicts() if verdict.grows] == [named]


def test_plot_is_svg_with_all_lines() -> None:
    """One title for each panel, a line for each piece between two gaps, coordinates within the picture."""
    panel = Panel("RSS < 1 GiB", {"broker 1": [(0.0, 1.0), (1.0, 2.0), None, (3.0, 1.0)], "broker 2": []})
    text = draw("2 minutes & 1 fault", [panel, Panel("none", {})], [60.0], 120.0)
    root = ElementTree.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    assert [each.text for each in root.iter(f"{name}text") if each.get("font-weight")] == [
        "2 minutes & 1 fault",
        "RSS < 1 GiB",
        "none",
    ]
    lines = [each.get("points", "").split() for each in root.iter(f"{name}polyline")]
    assert [len(line) for line in lines] == [2, 1]
    assert all(0 <= float(number) <= 420 for line in lines for point in line for number in point.split(","))
    assert ElementTree.fromstring(growing().svg()) is not None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, 1.0), (0.7, 0.8), (1.0, 1.0), (47.3, 50.0), (61.0, 80.0), (81.0, 100.0), (758.0, 800.0)],
)
def test_axis_ends_at_a_round_number(value: float, expected: float) -> None:
    """The number is just above the greatest value."""
    assert math.isclose(ceiling(value), expected)


def run(
    directory: Path, minutes: float, fault_interval: float, allowance: float = 1.0, but: tuple[str, ...] = ()
) -> None:
    """Run it once, and print the figures. A measure may rise by its bound times ``allowance``; those whose names begin
    with a text of ``but`` are not judged."""
    result = Endurance(directory, minutes, fault_interval).run()
    print(f"\n{result.markdown()}", flush=True)
    judged = [each for each in result.verdicts() if not each.name.startswith(but)]
    assert judged
    risen = [each for each in judged if each.rise > allowance * each.limit]
    growing = [f"{each.name}: {each.rise:+.1f}, bound {each.limit:.1f}" for each in risen]
    assert not growing, "it grows: " + "; ".join(growing)


@pytest.mark.full
@pytest.mark.kafkalite_only
def test_a_short_run_loses_no_record_and_does_not_grow(tmp_path: Path) -> None:
    """A minute and a half with a fault every 6 seconds, so that each fault comes once.

    With four times the bounds, because the measures reach their plateau late on a machine that stalls. Those of memory
    and log files reach it only after the run, so that only the long run judges them.
    """
    run(tmp_path, 1.5, 6.0, allowance=4.0, but=("RSS", "file descriptors", "log "))


@pytest.mark.soak
@pytest.mark.kafkalite_only
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
def test_a_long_run_loses_no_record_and_does_not_grow(tmp_path: Path) -> None:
    """A fault each minute."""
    run(tmp_path, MINUTES, 60.0)
