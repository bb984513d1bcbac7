"""All quotas of clients of one broker, and what ``/config/users`` and ``/config/clients`` say of them.

Answers to: ``kafka.server.QuotaFactory.QuotaManagers`` (those of clients) and
``kafka.server.{QuotaConfigHandler,UserConfigHandler,ClientIdConfigHandler}``. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafkalite.common.principals import KafkaPrincipal
from kafkalite.common.quota_rates import QuotaType, QuotaWindows
from kafkalite.security.client_usage import ClientUsage
from kafkalite.security.controller_mutation_quotas import ControllerMutationQuotas
from kafkalite.security.quota_limits import QuotaEntity, QuotaLimits, parse_bound
from kafkalite.security.quotas import ClientQuotaManager

log = logging.getLogger(__name__)

_TIDY_AFTER_MS: Final = 600_000
_WINDOWS: Final = QuotaWindows()


class ClientQuotas:
    """The quotas by type. ``is_active`` says whether any client has one: otherwise nothing is measured, and no time
    unless ``measures_time``.

    ``windows`` are those of the rates, ``mutation_windows`` those of the controller's mutations.
    """

    def __init__(self, windows: QuotaWindows = _WINDOWS, mutation_windows: QuotaWindows = _WINDOWS) -> None:
        self._limits = {each: QuotaLimits() for each in QuotaType}
        self._tidied_ms = 0
        self.generation = object()
        """Replaced when a quota changes or usage is forgotten: a :class:`ClientUsage` of another one is stale."""
        self.is_active = False
        self.measures_time = False
        self.produce = self._manager(QuotaType.PRODUCE, windows)
        self.fetch = self._manager(QuotaType.FETCH, windows)
        self.request = self._manager(QuotaType.REQUEST, windows)
        self.mutations = ControllerMutationQuotas(self._limits[QuotaType.CONTROLLER_MUTATION], mutation_windows)

    def _manager(self, quota_type: QuotaType, windows: QuotaWindows) -> ClientQuotaManager:
        return ClientQuotaManager(quota_type, self._limits[quota_type], windows)

    def usage(self, principal: KafkaPrincipal, client_id: str | None) -> ClientUsage:
        """What a client used of its quotas. Valid while :attr:`generation` stays."""
        key = (principal.name, client_id or "")
        return ClientUsage(
            self.generation,
            principal,
            client_id,
            self.produce.usage(*key),
            self.fetch.usage(*key),
            self.request.usage(*key),
        )

    def update(self, path: str, overrides: Mapping[str, str]) -> None:
        """Obey the overrides of ``users/<user>``, ``users/<user>/clients/<client>`` or ``clients/<client>``.

        A wrong value is logged, and that quota stays as it was.
        """
        entity = QuotaEntity.of_path(path)
        if entity is None:
            log.error("/config/%s: quotas belong to a user, a client or a user's client", path)
            return
        for quota_type, limits in self._limits.items():
            text = overrides.get(quota_type.value)
            try:
                bound = None if text is None else parse_bound(quota_type, text)
            except ValueError as error:
                log.error("/config/%s: %s; the quota stays as it was", path, error)
                continue
            if limits.bounds.get(entity) != bound:
                limits.update(entity, bound)
                self.generation = object()
                log.info("/config/%s: %s=%s", path, quota_type.value, "none" if bound is None else f"{bound:.12g}")
        self.is_active = not all(limits.is_empty for limits in self._limits.values())
        self.measures_time = not self._limits[QuotaType.REQUEST].is_empty

    def tidy(self, now_ms: int) -> None:
        """Free the memory of clients that were silent for long; call it at any time."""
        if now_ms - self._tidied_ms >= _TIDY_AFTER_MS:
            self._tidied_ms = now_ms
            for each in (self.produce, self.fetch, self.request, self.mutations):
                each.forget_silent(now_ms)
            self.generation = object()
