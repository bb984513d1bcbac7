"""Single changes of configurations."""

from __future__ import annotations

import pytest

from kafkalite.admin.config_admin import AlterOp, OpType, apply_ops
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.log.log_config import TOPIC_CONFIGS

DEFAULTS = {"cleanup.policy": ("delete",)}
SET, DELETE, APPEND, SUBTRACT = OpType


@pytest.mark.parametrize(
    ("current", "op", "expected"),
    [
        ({}, AlterOp("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, AlterOp("retention.ms", DELETE, None), {}),
        ({}, AlterOp("retention.ms", DELETE, None), {}),
        ({}, AlterOp("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        ({"cleanup.policy": "compact"}, AlterOp("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "compact"}),
        (
            {"cleanup.policy": "compact,delete"},
            AlterOp("cleanup.policy", SUBTRACT, "delete"),
            {"cleanup.policy": "compact"},
        ),
        ({"a": "1"}, AlterOp("retention.ms", SET, "5"), {"a": "1", "retention.ms": "5"}),
    ],
)
def test_changes(current: dict[str, str], op: AlterOp, expected: dict[str, str]) -> None:
    assert apply_ops(current, [op], TOPIC_CONFIGS, DEFAULTS) == expected


@pytest.mark.parametrize(
    ("ops", "code"),
    [
        ([AlterOp("a", SET, "1"), AlterOp("a", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ([AlterOp("a", SET, None)], ErrorCode.INVALID_REQUEST),
        ([AlterOp("a", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([AlterOp("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([AlterOp("nonsense", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_refusals(ops: list[AlterOp], code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        apply_ops({}, ops, TOPIC_CONFIGS, DEFAULTS)
    assert caught.value.code is code
