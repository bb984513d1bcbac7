"""Errors of a ZooKeeper consumer.

Answers to: ``kafka.common.ConsumerRebalanceFailedException`` and its neighbours. Pure.
"""

from __future__ import annotations


class ConsumerRebalanceFailedError(Exception):
    """The group could not be rebalanced within ``rebalance.max.retries`` attempts; the text names what was in the way.

    The 0.8 consumer only logged this if it happened in the background, and then never read again.
    """


class ConsumerClosedError(Exception):
    """The consumer has been closed."""


class ConsumerAuthenticationError(Exception):
    """A broker refused the consumer's login, or its certificate is not trusted."""
