"""Principals as Kafka parses and writes them."""

from __future__ import annotations

import pytest

from kafkalite.common.principals import ANONYMOUS, KafkaPrincipal, parse_super_users


def test_principals_are_parsed_and_written() -> None:
    assert KafkaPrincipal.parse("User:CN=a:b") == KafkaPrincipal("User", "CN=a:b")
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert KafkaPrincipal("User", "a", token_authenticated=True) == KafkaPrincipal.user("a")


@pytest.mark.parametrize("text", ["", "alice"])
def test_a_text_without_a_type_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="principalType:principalName"):
        KafkaPrincipal.parse(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [("", set()), ("User:a", {"a"}), ("User:a; User:CN=b,O=c ;", {"a", "CN=b,O=c"})],
)
def test_super_users_are_separated_by_semicolons(text: str, names: set[str]) -> None:
    assert {principal.name for principal in parse_super_users(text)} == names
