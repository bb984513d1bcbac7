"""A broker that reaches ZooKeeper and does not register is told of."""

from __future__ import annotations

import pytest

from kafkalite.testing.simulation.registrations import Registrations
from tests.testing.simulation.connected import Connected

ZNODE = "/brokers/ids/1"


class RegistrationsFixture(Connected):
    """Broker 1 is connected in session 7, and has no znode."""

    def __init__(self) -> None:
        super().__init__()
        self.registrations = Registrations(self.cluster, self.cut.__contains__, self.told.append)

    def look(self, seconds: float) -> None:
        """Look after so many seconds more."""
        self.world.now += seconds
        self.registrations.look()


def test_a_broker_that_does_not_register() -> None:
    fixture = RegistrationsFixture()
    fixture.look(1)
    fixture.look(4)
    assert fixture.told == []
    fixture.look(0.1)
    assert fixture.told == ["broker 1 has been connected to ZooKeeper, and not registered, for 4 s"]


@pytest.mark.parametrize("event", ["registers", "another session", "cut off", "suspended", "paused", "starts", "lag"])
def test_a_broker_that_could_not_register_for_so_long_is_excused(event: str) -> None:
    fixture = RegistrationsFixture()
    fixture.look(1)
    if event == "registers":
        fixture.nodes[ZNODE] = object()
    elif event == "another session":
        fixture.machine.zk.session = 8
    else:
        fixture.befall(event)
    fixture.look(4)
    fixture.look(0.1)
    assert fixture.told == []
