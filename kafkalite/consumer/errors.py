"""What a ZooKeeper consumer raises.

Answers to: ``kafka.common.ConsumerRebalanceFailedException`` and its neighbours. Pure.
"""

from __future__ import annotations


class ConsumerRebalanceFailedError(Exception):
    """The members did not come to agree within ``rebalance.max.retries`` attempts; the text says who was in the way.

    The 0.8 consumer only logged this where it happened in the background, and then read nothing for ever.
    """


class ConsumerClosedError(Exception):
    """The consumer has been closed."""
