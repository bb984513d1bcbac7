"""The states of a transactional id and the legal transitions between them.

Answers to: ``kafka.coordinator.transaction.TransactionState.validPreviousStates``. Pure.

``python -m kafkalite.coordinator.transaction.states`` prints the table as the diagram of ``docs/transactions.md``.
"""

from __future__ import annotations

from typing import Final

from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState

_S = TransactionState

LEGAL: Final[dict[tuple[TransactionState, TransactionState], str]] = {
    (_S.EMPTY, _S.EMPTY): "InitProducerId",
    (_S.EMPTY, _S.ONGOING): "AddPartitionsToTxn, AddOffsetsToTxn",
    (_S.ONGOING, _S.ONGOING): "AddPartitionsToTxn, AddOffsetsToTxn",
    (_S.ONGOING, _S.PREPARE_COMMIT): "EndTxn (commit)",
    (_S.ONGOING, _S.PREPARE_ABORT): "EndTxn (abort)",
    (_S.ONGOING, _S.PREPARE_EPOCH_FENCE): "InitProducerId, timeout",
    (_S.PREPARE_EPOCH_FENCE, _S.PREPARE_ABORT): "at once, in the same write",
    (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT): "offsets applied, every marker acknowledged",
    (_S.PREPARE_ABORT, _S.COMPLETE_ABORT): "offsets discarded, every marker acknowledged",
    (_S.COMPLETE_COMMIT, _S.EMPTY): "InitProducerId",
    (_S.COMPLETE_COMMIT, _S.ONGOING): "AddPartitionsToTxn, AddOffsetsToTxn",
    (_S.COMPLETE_ABORT, _S.EMPTY): "InitProducerId",
    (_S.COMPLETE_ABORT, _S.ONGOING): "AddPartitionsToTxn, AddOffsetsToTxn",
    (_S.EMPTY, _S.DEAD): "transactional.id.expiration.ms",
    (_S.COMPLETE_COMMIT, _S.DEAD): "transactional.id.expiration.ms",
    (_S.COMPLETE_ABORT, _S.DEAD): "transactional.id.expiration.ms",
}
"""The legal transitions (from, to), each with the request or event that causes it."""

DECIDED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""The decision is durable; offsets and markers are still being written."""
AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is open, and the last one is complete."""


class IllegalTransactionTransitionError(Exception):
    """A transition that is not in the table: an error in the coordinator, never in a client."""


def transition(metadata: TransactionMetadata, state: TransactionState, **changes: object) -> TransactionMetadata:
    """``metadata`` with ``state`` and ``changes``. Raises :class:`IllegalTransactionTransitionError`."""
    if (metadata.state, state) not in LEGAL:
        raise IllegalTransactionTransitionError(f"{metadata.transactional_id}: {metadata.state.value} to {state.value}")
    return metadata.with_(state=state, **changes)


def mermaid() -> str:
    """The table as a mermaid diagram, ending with a newline."""
    lines = ["stateDiagram-v2", f"    [*] --> {_S.EMPTY.value}: InitProducerId"]
    lines += [f"    {old.value} --> {new.value}: {trigger}" for (old, new), trigger in LEGAL.items()]
    lines.append(f"    {_S.DEAD.value} --> [*]")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(mermaid(), end="")
