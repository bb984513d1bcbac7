"""One state of an authorizer, to which its decisions belong.

Answers to: no class of Kafka; its authorizer decides every time. Pure.
"""

from __future__ import annotations


class AclSnapshot:
    """One state of an authorizer: decisions made in it hold while :attr:`is_current`.

    The authorizer replaces it with every change that may change a decision.
    """

    __slots__ = ("is_current",)

    def __init__(self) -> None:
        self.is_current = True

    def succeeded(self) -> AclSnapshot:
        """The snapshot of the next state; this one is current no more."""
        self.is_current = False
        return AclSnapshot()
