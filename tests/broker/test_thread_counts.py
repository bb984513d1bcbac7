"""How far thread counts may change at once."""

from __future__ import annotations

import pytest

from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.broker.thread_counts import check_thread_counts
from kafkalite.common.errors import ConfigError

POOLS = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        (3, "value should be at least half the current value 8"),
        (4, None),
        (8, None),
        (16, None),
        (17, "value should not be greater than double the current value 8"),
    ],
)
def test_a_pool_of_threads_changes_by_at_most_a_factor_of_two(name: str, wanted: int, refusal: str | None) -> None:
    check(name, wanted, f"Dynamic thread count update validation failed for {name}={wanted}, {refusal}", refusal)


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        (0, "Log cleaner threads should be at least 1"),
        (3, "Log cleaner threads cannot be reduced to less than half the current value 8"),
        (4, None),
        (16, None),
        (17, "Log cleaner threads cannot be increased to more than double the current value 8"),
    ],
)
def test_the_number_of_compactors_changes_by_at_most_a_factor_of_two(wanted: int, refusal: str | None) -> None:
    check("log.cleaner.threads", wanted, refusal or "", refusal)


def check(name: str, wanted: int, text: str, refusal: str | None) -> None:
    present = {**BROKER_CONFIGS.defaults(), name: 8}
    changed = {**present, name: wanted}
    if refusal is None:
        check_thread_counts(present, changed)
    else:
        with pytest.raises(ConfigError) as refused:
            check_thread_counts(present, changed)
        assert str(refused.value) == text
