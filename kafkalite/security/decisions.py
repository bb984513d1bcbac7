"""The decisions of the authorizer that one connection has asked for.

Answers to: no class of Kafka; its authorizer decides every time. Pure.
"""

from __future__ import annotations

from typing import Protocol

from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.security.acl_snapshot import AclSnapshot

_LIMIT = 4096
"""Decisions kept, because a client may ask for any number of names."""


class Decider(Protocol):
    """The part of :class:`kafkalite.security.authorizer_interface.Authorizer` that decides."""

    @property
    def snapshot(self) -> AclSnapshot | None: ...
    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType, name: str, /
    ) -> bool: ...
    def authorize_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType, /
    ) -> bool: ...


class Decisions:
    """One connection's view of the ACLs: the same question costs one look-up until an ACL changes."""

    __slots__ = ("_authorizer", "_known", "host", "principal", "readable", "snapshot", "writable")

    def __init__(self, authorizer: Decider, principal: KafkaPrincipal, host: str) -> None:
        self.principal = principal
        self.host = host
        self._authorizer = authorizer
        self.snapshot = authorizer.snapshot
        """The state of the authorizer to which all that is kept here belongs; ``None`` if nothing may be kept."""
        self.writable: set[str] = set()
        """Topics that the client may write, for Produce, which asks at every request."""
        self.readable: set[str] = set()
        """Topics that it may read, for Fetch."""
        self._known: dict[tuple[AclOperation, AclResourceType, str | None], bool] = {}
        """A decision without a name is one by the type of the resource."""

    @property
    def view(self) -> tuple[object, ...]:
        """What an answer that depends on decisions may be kept by: the same view, the same decisions."""
        return (self.principal, self.host, self._authorizer.snapshot or object())

    def authorize(self, operation: AclOperation, type_: AclResourceType, name: str) -> bool:
        """As :meth:`Decider.authorize`, for this connection's principal and host."""
        known = self._valid()
        decision = known.get((operation, type_, name))
        if decision is None:
            decision = self._authorizer.authorize(self.principal, self.host, operation, type_, name)
            known[operation, type_, name] = decision
        return decision

    def authorize_by_resource_type(self, operation: AclOperation, type_: AclResourceType) -> bool:
        """As :meth:`Decider.authorize_by_resource_type`, for this connection's principal and host."""
        known = self._valid()
        decision = known.get((operation, type_, None))
        if decision is None:
            decision = self._authorizer.authorize_by_resource_type(self.principal, self.host, operation, type_)
            known[operation, type_, None] = decision
        return decision

    def _valid(self) -> dict[tuple[AclOperation, AclResourceType, str | None], bool]:
        """The known decisions, without any if an ACL has changed."""
        snapshot = self.snapshot
        if snapshot is None or not snapshot.is_current or len(self._known) >= _LIMIT:
            self._known.clear()
            self.writable.clear()
            self.readable.clear()
            self.snapshot = self._authorizer.snapshot
        return self._known
