"""A broker that reaches ZooKeeper and does not register is told of."""

from __future__ import annotations

import pytest

from kafkalite.testing.simulation.registrations import Registrations
from tests.testing.simulation.connected import Connected

ZNODE = "/brokers/ids/1"


class Setting(Connected):
    """Broker 1 is connected in session 7, and has no znode."""

    def __init__(self) -> None:
        super().__init__()
        self.registrations = Registrations(self.cluster, self.cut.__contains__, self.told.append)

    def look(self, seconds: float) -> None:
        """Look after so many seconds more."""
        self.world.now += seconds
        self.registrations.look()


def test_a_broker_that_does_not_register() -> None:
    setting = Setting()
    setting.look(1)
    setting.look(4)
    assert setting.told == []
    setting.look(0.1)
    assert setting.told == ["broker 1 has been connected to ZooKeeper, and not registered, for 4 s"]


@pytest.mark.parametrize("event", ["registers", "another session", "cut off", "suspended", "paused", "starts", "lag"])
def test_a_broker_that_could_not_register_for_so_long_is_excused(event: str) -> None:
    setting = Setting()
    setting.look(1)
    if event == "registers":
        setting.nodes[ZNODE] = object()
    elif event == "another session":
        setting.machine.zk.session = 8
    else:
        setting.befall(event)
    setting.look(4)
    setting.look(0.1)
    assert setting.told == []
