"""Which quota is a client's: the eight levels of users, clients and defaults.

Answers to: ``kafka.server.ClientQuotaManager.DefaultQuotaCallback`` and
``org.apache.kafka.server.config.QuotaConfigs``. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkalite.common.quota_rates import QuotaType
from kafkalite.security.sanitizer import desanitize
from kafkalite.zk.znodes.config import DEFAULT


class QuotaEntity(NamedTuple):
    """Whose quota it is. ``None`` leaves a part out; the default of a part is :data:`DEFAULT`.

    A user may be named ``<default>``; its znode has the sanitized name. So ``is_default_…`` tells the default apart.
    """

    user: str | None
    client_id: str | None
    is_default_user: bool = False
    is_default_client: bool = False

    @classmethod
    def of_path(cls, path: str) -> QuotaEntity | None:
        """The entity of ``users/<user>``, ``users/<user>/clients/<client>`` or ``clients/<client>``; else ``None``."""
        parts = path.split("/")
        if len(parts) == 2 and parts[0] == "clients":
            return cls._named(None, parts[1])
        if len(parts) == 2 and parts[0] == "users":
            return cls._named(parts[1], None)
        if len(parts) == 4 and parts[0] == "users" and parts[2] == "clients":
            return cls._named(parts[1], parts[3])
        return None

    @classmethod
    def _named(cls, user: str | None, client: str | None) -> QuotaEntity:
        return cls(
            None if user is None else DEFAULT if user == DEFAULT else desanitize(user),
            None if client is None else DEFAULT if client == DEFAULT else desanitize(client),
            user == DEFAULT,
            client == DEFAULT,
        )


_ANY_USER: Final = QuotaEntity(DEFAULT, None, True)
_ANY_CLIENT: Final = QuotaEntity(None, DEFAULT, False, True)
_ANY_BOTH: Final = QuotaEntity(DEFAULT, DEFAULT, True, True)


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of a client: the bound, and with whom it is shared.

    All clients with the same ``user`` and ``client_id`` here are measured together; an empty text stands for every one.
    """

    user: str
    client_id: str
    bound: float


class QuotaLimits:
    """The quotas of one type, as ``/config`` has them."""

    def __init__(self) -> None:
        self._bounds: dict[QuotaEntity, float] = {}
        self.version = 0
        """How many updates there were."""

    def update(self, entity: QuotaEntity, bound: float | None) -> None:
        """Set the bound of an entity; ``None`` removes it."""
        if bound is None:
            self._bounds.pop(entity, None)
        else:
            self._bounds[entity] = bound
        self.version += 1

    @property
    def is_empty(self) -> bool:
        """Whether no entity has a quota."""
        return not self._bounds

    @property
    def bounds(self) -> Mapping[QuotaEntity, float]:
        """The bound of each entity that has one."""
        return self._bounds

    def resolve(self, user: str, client_id: str) -> Quota | None:
        """The quota of a user's client: that of the most specific entity that has one."""
        for entity, shares in (
            (QuotaEntity(user, client_id), (user, client_id)),
            (QuotaEntity(user, DEFAULT, False, True), (user, client_id)),
            (QuotaEntity(user, None), (user, "")),
            (QuotaEntity(DEFAULT, client_id, True), (user, client_id)),
            (_ANY_BOTH, (user, client_id)),
            (_ANY_USER, (user, "")),
            (QuotaEntity(None, client_id), ("", client_id)),
            (_ANY_CLIENT, ("", client_id)),
        ):
            bound = self._bounds.get(entity)
            if bound is not None:
                return Quota(*shares, bound)
        return None


def parse_bound(quota_type: QuotaType, text: str) -> float:
    """The bound in a znode or a request. Raises :class:`ValueError`, which names the key."""
    try:
        bound = float(text)
    except ValueError:
        raise ValueError(f"{quota_type.value}: {text!r} is not a number") from None
    if not bound > 0 or math.isinf(bound):
        raise ValueError(f"{quota_type.value}: {text!r} is not a number above 0")
    return bound
