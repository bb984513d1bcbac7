"""What the marks of a log directory say of the logs' end."""

from __future__ import annotations

import pytest

from kafkalite.log.log_dir_files import BootMark, CleanShutdown, kept_epoch


@pytest.mark.parametrize(
    ("clean", "boot", "boot_id", "kept"),
    [
        pytest.param(None, None, "now", -1, id="no mark: a new disk, or one of an older version"),
        pytest.param(CleanShutdown(70, 55, 2), None, "now", 55, id="stopped in order"),
        pytest.param(CleanShutdown(70, 55, -1), None, "", 55, id="stopped in order by Kafka"),
        pytest.param(CleanShutdown(70, 55, 3), None, "now", -1, id="stopped in order, with a directory more"),
        pytest.param(None, BootMark("now", 55, 2), "now", 55, id="killed"),
        pytest.param(None, BootMark("then", 55, 2), "now", -1, id="the machine booted since"),
        pytest.param(None, BootMark("now", 55, 3), "now", -1, id="killed, with a directory more"),
        pytest.param(None, BootMark("now", 55, 2), "", -1, id="the present boot is unknown"),
        pytest.param(None, BootMark("", 55, 2), "", -1, id="neither boot is known"),
        pytest.param(CleanShutdown(70, 60, 2), BootMark("now", 55, 2), "now", 60, id="killed after its clean mark"),
    ],
)
def test_which_life_of_the_logs_goes_on(
    clean: CleanShutdown | None, boot: BootMark | None, boot_id: str, kept: int
) -> None:
    assert kept_epoch(clean, boot, boot_id, directories=2) == kept


def test_a_boot_mark_is_read_as_it_was_written() -> None:
    mark = BootMark("4f5e-11", 55, 2)
    assert mark.encode() == b'{"version":0,"bootId":"4f5e-11","uncleanStartEpoch":55,"directories":2}'
    assert BootMark.decode(mark.encode()) == mark


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b"7", b"\xff", b'{"version":1,"bootId":"b","uncleanStartEpoch":5,"directories":1}',
     b'{"version":0,"bootId":"b","uncleanStartEpoch":null,"directories":1}'],
)  # fmt: skip
def test_a_boot_mark_of_which_nothing_is_known(text: bytes) -> None:
    assert BootMark.decode(text) is None
