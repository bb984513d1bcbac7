"""What a request that creates or deletes partitions costs its client's quota (KIP-599).

Answers to: ``ControllerMutationQuotaManager.newQuotaFor`` and
``RequestHandlerHelper.sendResponseMaybeThrottleWithControllerQuota``. Deterministic.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext


class Mutations:
    """The partitions of one request. ``strict_since`` is the API's first version whose clients know the error.

    ``None``: none of its clients does, and all partitions are counted but never refused.
    """

    def __init__(self, context: RequestContext, strict_since: int | None) -> None:
        self._monotonic = context.services.clock.monotonic
        self._quota = context.services.quotas.mutations.quota(
            context.connection.principal.name,
            context.client_id or "",
            self._now_ms(),
            is_strict=strict_since is not None and context.version >= strict_since,
        )

    def charge(self, partitions: int) -> None:
        """Count ``partitions``. Raises :class:`kafkalite.common.errors.ApiError` THROTTLING_QUOTA_EXCEEDED."""
        self._quota.record(partitions, self._now_ms())

    @property
    def throttle_time_ms(self) -> int:
        """For how long the client is throttled from now on."""
        return self._quota.throttle_time_ms(self._now_ms())

    def _now_ms(self) -> int:
        return int(self._monotonic() * 1000)
