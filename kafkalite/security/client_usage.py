"""What one client used of its quotas, for the requests of its connection.

Answers to: ``kafka.server.ClientSensors``, which Kafka looks up for every request. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.common.principals import KafkaPrincipal
from kafkalite.security.quota_usage import QuotaUsage


@dataclass(frozen=True, slots=True, eq=False)
class ClientUsage:
    """The usage of each quota of a client; ``None`` for a quota that it does not have.

    Valid while ``generation`` is that of :class:`kafkalite.security.client_quotas.ClientQuotas`.
    """

    generation: object
    principal: KafkaPrincipal
    client_id: str | None
    produce: QuotaUsage | None
    fetch: QuotaUsage | None
    request: QuotaUsage | None
