"""The faults of an endurance run, in turn. The process of one broker, the veteran, never ends.

The veteran is paused, cut off and loses its session, but its process lives as long as the run, so that its growth
shows. The processes of the other brokers end many times; their measures are compared at equal ages.
"""

from __future__ import annotations

import time
from enum import Enum

from integration.endurance.load import PATIENCE, SteadyLoad
from integration.faults.cluster import controller, is_registered
from integration.harness.wait import wait_for
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.testing.cluster import KafkaliteCluster

VETERAN = 3
MORTALS = (1, 2)
HOLD = 10.0
"""Seconds of a pause or a cut, longer than the session timeout."""
DEATH = 2.0
"""Seconds from the kill of a broker to its restart."""


class EnduranceFault(Enum):
    """The faults, in the order of a run."""

    KILL_BROKER = "kill -9 of broker 1"
    PAUSE = "SIGSTOP of the veteran for 10 s"
    KILL_MEMBER = "kill -9 of a group member"
    KILL_CONTROLLER = "kill -9 of the controller"
    CUT = "the veteran cut off from brokers and ZooKeeper for 10 s"
    RESTART = "controlled restart of broker 2"
    EXPIRE = "the veteran's session expires"
    RESTART_ZOOKEEPER = "restart of ZooKeeper"


class EnduranceCluster:
    """The cluster with its ZooKeeper, and the injection of faults."""

    def __init__(self, cluster: KafkaliteCluster, zookeeper: EmbeddedZooKeeper) -> None:
        self.cluster = cluster
        self._server = zookeeper

    @property
    def bootstrap(self) -> str:
        """``host:port,…`` of all brokers."""
        return self.cluster.get_bootstrap_server()

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's connection string."""
        return self.cluster.zookeeper

    @property
    def broker_ids(self) -> list[int]:
        """Ids of all brokers, alive or not."""
        return self.cluster.broker_ids

    def inject(self, fault: EnduranceFault, load: SteadyLoad) -> str:
        """Inject a fault and end it; returns a description when the brokers serve again, perhaps not yet in sync."""
        match fault:
            case EnduranceFault.KILL_BROKER:
                return self._kill(1)
            case EnduranceFault.KILL_CONTROLLER:
                return self._kill(self._mortal_controller())
            case EnduranceFault.RESTART:
                self.cluster.restart(2, PATIENCE)
            case EnduranceFault.PAUSE:
                self.cluster.pause(VETERAN)
                try:
                    time.sleep(HOLD)
                finally:
                    self.cluster.resume(VETERAN)
            case EnduranceFault.CUT:
                self.cluster.partition(VETERAN)
                try:
                    time.sleep(HOLD)
                finally:
                    self.cluster.heal()
            case EnduranceFault.EXPIRE:
                self.cluster.expire_session(VETERAN, PATIENCE)
            case EnduranceFault.RESTART_ZOOKEEPER:
                self._server.stop()
                self._server.start(PATIENCE)
            case EnduranceFault.KILL_MEMBER:
                load.replace_victim()
        for broker_id in self.broker_ids:
            wait_for(lambda each=broker_id: is_registered(self, each), f"broker {broker_id} is registered", PATIENCE)  # type: ignore[misc]
        return str(fault.value)

    def _kill(self, broker_id: int) -> str:
        self.cluster.kill(broker_id)
        time.sleep(DEATH)
        self.cluster.restart(broker_id, PATIENCE)
        return f"kill -9 of broker {broker_id}"

    def _mortal_controller(self) -> int:
        """The controller's id. If the veteran is the controller, its session is ended first, so that another broker is
        elected."""

        def found() -> int:
            return controller(self)

        if wait_for(found, "there is a controller", PATIENCE) == VETERAN:
            self.cluster.expire_session(VETERAN, PATIENCE)
            wait_for(lambda: found() != VETERAN, "another broker is the controller", PATIENCE)
        return found()
