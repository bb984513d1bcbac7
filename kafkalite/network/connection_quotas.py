"""How many connections there may be, and how fast they may be made: of the broker, of a listener, of an address.

Answers to: ``kafka.network.ConnectionQuotas`` and ``kafka.server.IpConfigHandler``. Deterministic.

A listener whose connections are as many as they may be, or come too fast, accepts none for a while: they wait in the
kernel. The listener between brokers is not held back by the clients' connections: above the broker's bound, a client's
connection that was idle for longest has to go.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Final

from kafkalite.common.quota_rates import CONNECTION_CREATION_RATE, WindowedRate
from kafkalite.network.limits import UNLIMITED, ListenerLimits, NetworkLimits

log = logging.getLogger(__name__)

_RATE: Final = CONNECTION_CREATION_RATE
_DEFAULT: Final = "<default>"
_OF_THE_BROKER: Final = ""


class ConnectionQuotas:
    """Counts of the open connections, and rates of the new ones. Times are in ms."""

    def __init__(self, limits: NetworkLimits) -> None:
        self.limits = limits
        self.per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._total = 0
        self._ip_bounds: dict[str, int] = {}
        self._rates: dict[str, WindowedRate] = {}
        """Of the broker and of each listener."""
        self._ip_rates: dict[str, WindowedRate] = {}

    def update_ip(self, name: str, overrides: Mapping[str, str]) -> None:
        """Obey ``/config/ips/<name>``. A wrong value is logged, and the rate stays as it was."""
        text = overrides.get(_RATE)
        if text is None:
            self._ip_bounds.pop(name, None)
            return
        try:
            bound = int(text)
            if bound < 0:
                raise ValueError
        except ValueError:
            log.error("/config/ips/%s: %s: %r is not a number of at least 0; it stays as it was", name, _RATE, text)
            return
        self._ip_bounds[name] = bound
        log.info("/config/ips/%s: %s=%d", name, _RATE, bound)

    def opened(self, listener: str, ip: str) -> None:
        """Count a connection."""
        self._total += 1
        self._per_listener[listener] += 1
        self.per_ip[ip] += 1

    def closed(self, listener: str, ip: str) -> None:
        """The reverse."""
        self._total -= 1
        self._per_listener[listener] -= 1
        self.per_ip[ip] -= 1
        if self.per_ip[ip] <= 0:
            del self.per_ip[ip]

    def has_slot(self, listener: str) -> bool:
        """Whether a listener may accept another connection."""
        if self._per_listener[listener] >= self._of(listener).max_connections:
            return False
        return self.is_protected(listener) or self._total < self.limits.max_connections

    @property
    def is_above(self) -> bool:
        """Whether a connection between brokers came above the broker's bound."""
        return self._total > self.limits.max_connections

    def is_protected(self, listener: str) -> bool:
        """Whether ``listener`` is the brokers' own, beside others for clients."""
        brokers = self.limits.brokers_listeners
        return listener in brokers and not brokers.issuperset(self.limits.listeners)

    def max_of_ip(self, ip: str) -> int:
        """How many connections an address may have."""
        return self.limits.max_connections_per_ip_overrides.get(ip, self.limits.max_connections_per_ip)

    def pause_ms(self, listener: str, now_ms: int) -> int:
        """Record a new connection; for how long the listener accepts no other."""
        bounds = [(listener, self._of(listener).max_connection_rate)]
        if not self.is_protected(listener):
            bounds.append((_OF_THE_BROKER, self.limits.max_connection_rate))
        pauses = [self._record(self._rates, key, bound, now_ms) for key, bound in bounds if bound < UNLIMITED]
        return max(pauses, default=0)

    def refused_ms(self, ip: str, now_ms: int) -> int:
        """Record a connection from ``ip``; if it comes too fast, for how long its client waits until it is closed."""
        if not self._ip_bounds:
            return 0
        bound = self._ip_bounds.get(ip)
        if bound is None:
            bound = self._ip_bounds.get(_DEFAULT, UNLIMITED)
        if bound >= UNLIMITED:
            return 0
        delay_ms = self._record(self._ip_rates, ip, bound, now_ms)
        if delay_ms:
            # It does not count, because it is not served.
            self._ip_rates[ip].record(-1, now_ms)
        return delay_ms

    def tidy(self, now_ms: int) -> None:
        """Forget addresses that made no connection for long."""
        for ip in [ip for ip, rate in self._ip_rates.items() if rate.is_silent(now_ms)]:
            del self._ip_rates[ip]

    def _of(self, listener: str) -> ListenerLimits:
        found = self.limits.listeners.get(listener)
        return found or ListenerLimits(self.limits.max_connections, self.limits.max_connection_rate)

    def _record(self, rates: dict[str, WindowedRate], key: str, bound: int, now_ms: int) -> int:
        """The delay until the rate is ``bound`` again; at most one window."""
        rate = rates.get(key)
        if rate is None:
            rate = rates[key] = WindowedRate(self.limits.rate_windows)
        rate.record(1, now_ms)
        return min(rate.delay_ms(bound, now_ms), self.limits.rate_windows.size_ms)
