"""Credentials of users follow ``/config/users``."""

from __future__ import annotations

import pytest

from kafkalite.security.credential_cache import CredentialCache
from kafkalite.security.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential

OF_256 = ScramCredential.from_password(SCRAM_SHA_256, "wonder", b"salt", 4096)
OF_512 = ScramCredential.from_password(SCRAM_SHA_512, "wonder", b"salt", 4096)


def test_credentials_are_found_by_user_and_mechanism_until_they_are_removed() -> None:
    cache = CredentialCache()
    cache.user_changed("CN%3Dalice", {"SCRAM-SHA-256": OF_256.text(), "producer_byte_rate": "1"})
    assert cache.find("SCRAM-SHA-256", "CN=alice") == OF_256
    assert cache.find("SCRAM-SHA-512", "CN=alice") is None
    assert cache.find("SCRAM-SHA-256", "CN%3Dalice") is None
    cache.user_changed("CN%3Dalice", {"SCRAM-SHA-512": OF_512.text()})
    assert cache.find("SCRAM-SHA-256", "CN=alice") is None
    assert cache.find("SCRAM-SHA-512", "CN=alice") == OF_512
    cache.user_changed("CN%3Dalice", {})
    assert cache.find("SCRAM-SHA-512", "CN=alice") is None


@pytest.mark.parametrize("name", ["<default>", "alice/clients/c1"])
def test_quotas_of_other_entities_hold_no_credentials(name: str) -> None:
    cache = CredentialCache()
    cache.user_changed(name, {"SCRAM-SHA-256": OF_256.text()})
    assert cache.find("SCRAM-SHA-256", name) is None


def test_a_malformed_credential_is_dropped_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    cache = CredentialCache()
    cache.user_changed("alice", {"SCRAM-SHA-256": OF_256.text()})
    cache.user_changed("alice", {"SCRAM-SHA-256": "salt=planted"})
    assert cache.find("SCRAM-SHA-256", "alice") is None
    assert "user alice cannot authenticate by SCRAM-SHA-256" in caplog.text
    assert "planted" not in caplog.text
