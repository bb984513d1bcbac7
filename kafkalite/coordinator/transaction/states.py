"""The states of a transactional id and every step between them that is legal.

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
"""What may follow what, and what makes it happen."""

DECIDED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""How the transaction ends is durable; those who take part are still being told."""
AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is open and nobody is left to be told."""


class IllegalTransactionTransitionError(Exception):
    """A step that the table does not have: a mistake in this room, never a client's."""


def transition(metadata: TransactionMetadata, state: TransactionState, **changes: object) -> TransactionMetadata:
    """``metadata`` in another state. Raises :class:`IllegalTransactionTransitionError`."""
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
