"""Planted bugs around ZooKeeper: sessions, claims, registration, watches."""

from __future__ import annotations

from typing import Final

from integration.planted_bugs.bug import Edit, PlantedBug

_ROOM: Final = "ZooKeeper sessions"

BUGS: Final = (
    PlantedBug(
        "expired-leader-leads-on",
        _ROOM,
        "replication/replica_manager.py",
        "            self._isr.expired()\n            self._stopping.stop_leading()\n",
        "            self._isr.expired()\n",
        "two lines: with its session a broker ceases to lead, and states of before it registered count no more",
        "expired sessions",
        (
            Edit(
                "replication/role_applier.py",
                "        if leads and not from_controller and state.mzxid <= self._broker_epoch.current:\n",
                "        if leads and not from_controller and state.mzxid < 0:\n",
            ),
        ),
    ),
    PlantedBug(
        "writes-outlive-their-session",
        _ROOM,
        "zk/stores/fenced_write.py",
        "        results = await client.multi(ops, session=writes[indexes[0]].fence.session)\n",
        "        results = await client.multi(ops)\n",
        "four lines: a claim ends with its session, its writes are bound to that session and check it and the epoch",
        "expired sessions of coordinators",
        (
            Edit(
                "coordinator/group/group_metadata_manager.py",
                "            self._sessions += 1\n            self._let_go_of_all()\n",
                "            self._sessions += 1\n",
            ),
            Edit(
                "coordinator/transaction/transaction_coordinator.py",
                "            self._state_manager.drop_all()\n",
                "            pass\n",
            ),
            Edit(
                "zk/stores/fenced_write.py", "        if write.fence.session == client.session:\n", "        if True:\n"
            ),
            Edit(
                "zk/stores/claims.py",
                "        return WriteFence(self.check(), self.session)\n",
                "        return WriteFence(None if self.base else self.check(), self.session)\n",
            ),
        ),
    ),
    PlantedBug(
        "claims-have-no-epoch",
        _ROOM,
        "zk/stores/claims.py",
        "claims.encode_epoch(epoch + 1), version),",
        "claims.encode_epoch(epoch + (not base)), version),",
        "each coordinator has an epoch of its own",
        "a second coordinator",
    ),
    PlantedBug(
        "registered-in-a-former-session",
        _ROOM,
        "broker/registration.py",
        "            epoch, session = await self._store.register(self._broker)\n",
        "            epoch, _ = await self._store.register(self._broker)\n",
        "three lines: a leader writes in the session in which it registered, which is the present one",
        "a session lost during a quick restart",
        (
            Edit(
                "broker/registration.py",
                "        self._session = 0\n",
                "        self._session = 0\n        self._began = client.session\n",
            ),
            Edit(
                "broker/registration.py",
                "        await self._register()\n        self._client",
                "        await self._register(self._began)\n        self._client",
            ),
            Edit(
                "broker/registration.py",
                "                await self._register()\n            if not",
                "                await self._register(session)\n            if not",
            ),
            Edit("broker/registration.py", "_register(self) -> None:", "_register(self, session: int) -> None:"),
            Edit(
                "broker/registration.py",
                "            if session != self._client.session:\n                continue\n",
                "",
            ),
            Edit(
                "broker/registration.py",
                "            self._session, self._announced = session, endpoints\n",
                "            self._session, self._announced = session, endpoints\n            return\n",
            ),
        ),
    ),
    PlantedBug(
        "not-registered-anew",
        _ROOM,
        "broker/registration.py",
        "            self._clock.call_later(_RETRY, self._on_session, SessionState.CONNECTED)\n",
        "            self._session, self._announced = self._client.session, self._broker.endpoints\n",
        "two lines: a registration that failed is tried again, after a second and with the next connection",
        "connections that break during a registration",
    ),
    PlantedBug(
        "lost-watches-are-not-set-again",
        _ROOM,
        "broker/metadata_watcher.py",
        "            self.resync()\n            pause = RETRY\n",
        "            pause = RETRY\n",
        "two lines: what could not be read over a lost connection is read again, and the controller tells it",
        "connections to ZooKeeper that break",
        (
            Edit(
                "broker/control_plane.py",
                "        news = {state.topic for state in self._metadata.apply(request.states)}\n",
                "        news: set[str] = set()\n",
            ),
        ),
    ),
    PlantedBug(
        "metadata-go-back",
        _ROOM,
        "cluster/metadata.py",
        "            if state.order < known.order:\n                return False\n            same_id",
        "            same_id",
        "an older state does not replace a newer one in the metadata",
        "lagging ZooKeeper servers, requests of the controller that arrive late",
    ),
)
