"""Quotas: whose it is, what counts, and for how long a client is throttled."""

from __future__ import annotations

import random

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.quota_rates import QuotaType, QuotaWindows, TokenBucket, WindowedRate
from kafkalite.security.controller_mutation_quotas import ControllerMutationQuotas
from kafkalite.security.quota_limits import Quota, QuotaEntity, QuotaLimits, parse_bound
from kafkalite.security.quota_usage import QuotaUsage
from kafkalite.security.quotas import ClientQuotaManager

# (time in ms, recorded value, rate, window in ms, tokens), as the classes Rate and TokenBucket of Kafka 3.9.1 measure
# them with 11 windows of 1 s and a quota of 10.
MEASURED_BY_KAFKA = [
    (1000, 5, 0.5, 10000, 5.0),
    (1000, 200, 20.5, 10000, -195.0),
    (1500, 1, 19.61904761904762, 10500, -191.0),
    (2400, 30, 22.69230769230769, 10400, -212.0),
    (2600, 0, 22.264150943396228, 10600, -210.0),
    (5000, 100, 33.6, 10000, -286.0),
    (5001, 100, 43.595640435956405, 10001, -385.99),
    (9999, 7, 40.27638876261478, 10999, -343.01),
    (12000, 3, 40.54545454545455, 11000, -326.0),
    (12100, -50, 35.67567567567568, 11100, -275.0),
    (13000, 1, 18.0188679245283, 10600, -267.0),
    (14000, 0, 16.1, 10000, -257.0),
    (30000, 5, 0.5, 10000, -102.0),
    (31000, 900, 90.5, 10000, -992.0),
    (41999, 1, 81.91653786707882, 10999, -883.01),
    (42000, 1, 0.19998000199980004, 10001, -884.0),
    (42500, 1, 0.285687077421198, 10501, -880.0),
    (43001, 0, 0.29994001199760045, 10002, -874.99),
    (100000, 2, 0.2, 10000, -307.0),
]
# The same with two windows of 1 s, without tokens.
MEASURED_WITH_TWO_WINDOWS = [
    (1236, 4, 4.0, 1000),
    (1521, 4, 6.22568093385214, 1285),
    (1801, 14, 14.057507987220447, 1565),
    (2369, 9, 27.36098852603707, 1133),
    (2819, 14, 28.427037271004423, 1583),
    (3119, 12, 30.27084439723845, 1883),
    (3527, 11, 29.68136185072021, 2291),
    (4122, 2, 27.381631488876213, 1753),
    (4983, 18, 25.2486610558531, 2614),
    (5190, 19, 30.066145520144318, 1663),
    (5332, 4, 29.91689750692521, 1805),
    (6115, 11, 25.115919629057185, 2588),
    (6933, 4, 28.71794871794872, 1950),
    (7272, 0, 24.464831804281346, 2289),
    (8148, 11, 12.788981800295131, 2033),
    (8271, 13, 18.089053803339517, 2156),
    (8350, 11, 22.371364653243848, 2235),
    (8485, 12, 26.160337552742615, 2370),
    (9203, 6, 27.446918694976695, 1931),
    (9749, 14, 27.048849414614455, 2477),
    (9874, 0, 25.74942352036895, 2602),
    (10147, 7, 25.73913043478261, 2875),
    (10880, 15, 25.691699604743086, 2530),
    (11292, 9, 29.16396629941672, 1543),
]
WINDOWS = QuotaWindows()


def test_rates_and_tokens_are_those_that_kafka_measures() -> None:
    rate, bucket = WindowedRate(WINDOWS), TokenBucket(WINDOWS)
    bucket.measure(10, 0)
    for now_ms, value, expected, window_ms, tokens in MEASURED_BY_KAFKA:
        rate.record(value, now_ms)
        bucket.record(value, 10, now_ms)
        assert rate.measure(now_ms) == pytest.approx(expected), now_ms
        assert rate.window_ms(now_ms) == window_ms, now_ms
        assert bucket.measure(10, now_ms) == pytest.approx(tokens), now_ms


def test_rates_of_two_windows_are_those_that_kafka_measures() -> None:
    rate = WindowedRate(QuotaWindows(2, 1000))
    for now_ms, value, expected, window_ms in MEASURED_WITH_TWO_WINDOWS:
        rate.record(value, now_ms)
        assert rate.measure(now_ms) == pytest.approx(expected), now_ms
        assert rate.window_ms(now_ms) == window_ms, now_ms


def entity(path: str) -> QuotaEntity:
    found = QuotaEntity.of_path(path)
    assert found is not None
    return found


LEVELS = [
    ("users/u/clients/c", Quota("u", "c", 1)),
    ("users/u/clients/<default>", Quota("u", "c", 2)),
    ("users/u", Quota("u", "", 3)),
    ("users/<default>/clients/c", Quota("u", "c", 4)),
    ("users/<default>/clients/<default>", Quota("u", "c", 5)),
    ("users/<default>", Quota("u", "", 6)),
    ("clients/c", Quota("", "c", 7)),
    ("clients/<default>", Quota("", "c", 8)),
]


def test_the_most_specific_of_eight_levels_counts() -> None:
    limits = QuotaLimits()
    for number, (path, expected) in reversed(list(enumerate(LEVELS, 1))):
        limits.update(entity(path), float(number))
        assert limits.resolve("u", "c") == expected
    for number, (path, _) in enumerate(LEVELS):
        limits.update(entity(path), None)
        following = LEVELS[number + 1 :]
        assert limits.resolve("u", "c") == (following[0][1] if following else None)
    assert limits.is_empty


@pytest.mark.parametrize(
    ("path", "user", "client", "expected"),
    [
        ("users/a%2Fb", "a/b", "c", Quota("a/b", "", 9)),
        ("users/%3Cdefault%3E", "u", "c", None),
        ("users/%3Cdefault%3E", "<default>", "c", Quota("<default>", "", 9)),
        ("users/<default>", "anyone", "", Quota("anyone", "", 9)),
        ("clients/a%20b", "u", "a b", Quota("", "a b", 9)),
        ("clients/c", "u", "other", None),
        ("users/u/clients/c", "u", "other", None),
        ("users/u/clients/c", "v", "c", None),
    ],
)
def test_names_in_znodes_are_sanitized_and_defaults_are_not_names(
    path: str, user: str, client: str, expected: Quota | None
) -> None:
    limits = QuotaLimits()
    limits.update(entity(path), 9.0)
    assert limits.resolve(user, client) == expected


@pytest.mark.parametrize(
    "path", ["", "users", "topics/t", "users/a/b/c", "users/a/clients", "clients/a/b", "ips/1.2.3.4"]
)
def test_other_paths_are_of_no_quota(path: str) -> None:
    assert QuotaEntity.of_path(path) is None


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "nan", "inf"])
def test_a_bound_that_is_no_positive_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="producer_byte_rate"):
        parse_bound(QuotaType.PRODUCE, text)


def test_bounds_are_numbers() -> None:
    assert parse_bound(QuotaType.REQUEST, "12.5") == 12.5


def manager(quota_type: QuotaType = QuotaType.PRODUCE, bound: float = 100.0) -> ClientQuotaManager:
    limits = QuotaLimits()
    limits.update(entity("users/<default>"), bound)
    return ClientQuotaManager(quota_type, limits, WINDOWS)


def used(quotas: ClientQuotaManager, user: str = "u", client_id: str = "c") -> QuotaUsage:
    usage = quotas.usage(user, client_id)
    assert usage is not None
    return usage


def record(quotas: ClientQuotaManager, user: str, client_id: str, value: float, now_ms: int) -> int:
    return used(quotas, user, client_id).record(value, now_ms)


def test_a_client_is_throttled_until_its_rate_is_the_quota() -> None:
    """1,500 bytes over 10 s are 150 a second: 5 s later they are 100."""
    quotas = manager()
    assert record(quotas, "u", "c1", 1000, 1000) == 0
    assert record(quotas, "u", "c2", 500, 1000) == 5000
    assert record(quotas, "v", "c1", 1000, 1000) == 0


def test_a_throttled_fetch_takes_back_what_it_recorded() -> None:
    quotas = manager(QuotaType.FETCH)
    assert record(quotas, "u", "c", 1500, 1000) == 5000
    used(quotas).take_back(1500, 1000)
    assert record(quotas, "u", "c", 1000, 1000) == 0
    assert used(quotas).most_in_windows == 1000


def test_throttling_by_time_of_requests_ends_after_one_window() -> None:
    assert record(manager(QuotaType.REQUEST, 1.0), "u", "c", 5000, 1000) == 1000


def test_a_client_without_a_quota_is_not_throttled_and_takes_no_memory() -> None:
    quotas = ClientQuotaManager(QuotaType.PRODUCE, QuotaLimits(), WINDOWS)
    assert quotas.usage("u", "c") is None
    assert len(quotas) == 0


def test_silent_clients_are_forgotten_after_an_hour() -> None:
    quotas = manager()
    record(quotas, "u", "c", 1, 0)
    record(quotas, "v", "c", 1, 1)
    quotas.forget_silent(3_600_000)
    assert len(quotas) == 1


def test_a_quota_that_changes_counts_at_once() -> None:
    limits = QuotaLimits()
    limits.update(entity("users/u"), 100.0)
    quotas = ClientQuotaManager(QuotaType.PRODUCE, limits, WINDOWS)
    assert record(quotas, "u", "c", 1000, 1000) == 0
    limits.update(entity("users/u"), 50.0)
    assert record(quotas, "u", "c", 0, 1000) == 10_000
    limits.update(entity("users/u"), None)
    assert quotas.usage("u", "c") is None


@pytest.mark.parametrize("largest", [20, 200, 2000])
def test_a_greedy_client_that_obeys_keeps_the_mean_rate_within_a_tenth(largest: int) -> None:
    """After the credit of the first windows; single windows differ more, as Kafka's do."""
    rng = random.Random(largest)
    quotas = manager(bound=1000.0)
    now_ms, sent = 0, 0
    while now_ms < 340_000:
        size = rng.randrange(1, largest)
        sent += size if now_ms >= 40_000 else 0
        now_ms += record(quotas, "u", "c", size, now_ms) + rng.randrange(1, 5)
    assert 0.9 <= sent / 300 / 1000 <= 1.1


def mutation_quotas(bound: float = 10.0) -> ControllerMutationQuotas:
    limits = QuotaLimits()
    limits.update(entity("users/u/clients/<default>"), bound)
    return ControllerMutationQuotas(limits, WINDOWS)


def test_a_strict_quota_refuses_mutations_only_while_it_is_exhausted() -> None:
    quotas = mutation_quotas()
    quota = quotas.quota("u", "c", 200_000, is_strict=True)
    quota.record(210, 200_000)
    with pytest.raises(ApiError) as caught:
        quota.record(1, 200_000)
    assert caught.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert quota.is_exceeded
    assert quota.throttle_time_ms(200_000) == 10_000
    assert quota.throttle_time_ms(204_000) == 6_000
    assert quota.throttle_time_ms(300_000) == 0
    later = quotas.quota("u", "c", 210_000, is_strict=True)
    later.record(1, 210_000)
    assert not later.is_exceeded


def test_a_permissive_quota_accepts_and_throttles() -> None:
    quota = mutation_quotas().quota("u", "c", 200_000, is_strict=False)
    quota.record(210, 200_000)
    quota.record(10, 200_000)
    assert not quota.is_exceeded
    assert quota.throttle_time_ms(200_000) == 11_000


def test_a_client_without_a_mutation_quota_is_unbounded() -> None:
    quota = mutation_quotas().quota("v", "c", 0, is_strict=True)
    quota.record(1e9, 0)
    assert not quota.is_exceeded
    assert quota.throttle_time_ms(0) == 0


def test_no_sequence_of_records_raises_or_gives_a_negative_delay() -> None:
    rng = random.Random(28)
    for _ in range(200):
        windows = QuotaWindows(rng.randrange(1, 12), rng.choice((1, 100, 1000)))
        rate, bucket = WindowedRate(windows), TokenBucket(windows)
        now_ms = rng.choice((0, 10**12))
        for _ in range(50):
            now_ms += rng.choice((0, 1, 50, 999, 5000, -1, 10**7))
            bound = rng.choice((0.0, 1e-9, 1.0, 1e300))
            value = rng.choice((0.0, 1.0, -1.0, 1e12))
            rate.record(value, now_ms)
            bucket.record(value, bound, now_ms)
            assert 0 <= rate.delay_ms(bound, now_ms) <= 2**31 - 1
            assert 0 <= bucket.delay_ms(bound, now_ms) <= 2**31 - 1


def test_a_delay_is_the_same_whether_or_not_the_rate_had_to_be_measured() -> None:
    """Most requests are below the quota by the sum of their bytes alone; this must change no other's delay."""
    rng = random.Random(7)
    for _ in range(200):
        quick, exact = WindowedRate(QuotaWindows()), WindowedRate(QuotaWindows())
        bound = rng.choice([10, 100, 1000])
        now_ms = 1000
        for _ in range(60):
            now_ms += rng.choice([1, 10, 300, 1000, 2500, 12000])
            value = rng.choice([1, 5, 50, bound, 11 * bound])
            quick.record(value, now_ms)
            exact.record(value, now_ms)
            rate = exact.measure(now_ms)
            expected = max(0, int((rate - bound) / bound * exact.window_ms(now_ms) + 0.5)) if rate > bound else 0
            assert quick.delay_ms(bound, now_ms) == expected
            if expected and rng.random() < 0.7:
                for each in (quick, exact):
                    each.record(-value, now_ms)


def test_usage_that_waits_to_be_passed_on_throttles_as_if_every_value_were_passed_on() -> None:
    rng = random.Random(11)
    for _ in range(100):
        bound = rng.choice([10.0, 1000.0, 1e6])
        usage, exact = QuotaUsage(WindowedRate(WINDOWS), None), WindowedRate(WINDOWS)
        usage.limit(bound)
        now_ms, delays = 1000, 0
        for _ in range(300):
            now_ms += rng.choice([0, 1, 10, 300, 1000, 2500, 12_000])
            value = rng.choice([0, 1, 5, bound / 10, 11 * bound])
            exact.record(value, now_ms)
            delay_ms = exact.delay_ms(bound, now_ms)
            assert usage.record(value, now_ms) == delay_ms
            assert usage.last_ms == now_ms
            if delay_ms:
                delays += 1
                usage.take_back(value, now_ms)
                exact.record(-value, now_ms)
        assert delays


def test_silence_counts_from_usage_that_was_not_passed_on_yet() -> None:
    quotas = manager(bound=1e9)
    for now_ms in (0, 1, 999):
        record(quotas, "u", "c", 1, now_ms)
    quotas.forget_silent(3_600_998)
    assert len(quotas) == 1
    quotas.forget_silent(3_600_999)
    assert len(quotas) == 0
