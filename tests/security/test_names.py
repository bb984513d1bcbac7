"""Names of users as znodes, and names of certificates: as Kafka and Java write them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from kafkalite.security.distinguished_names import rfc2253_name
from kafkalite.security.principal_mapping import SslPrincipalMapper
from kafkalite.security.sanitizer import desanitize, sanitize

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
ALICE = "CN=Alice Ågren,OU=Admin\\,x,ST=A+B"

# Hex of the DER encoding of a name → what Java 17's X500Principal.getName("RFC2253") writes of it.
NAMES_OF_JAVA: dict[str, str] = json.loads((Path(__file__).parent / "data" / "java_names.json").read_text())
# What Kafka 3.9.1's SslPrincipalMapper makes of DUKE and of ALICE; None where no rule applies.
RULES_OF_KAFKA: list[tuple[str, str | None, str | None]] = [
    ("DEFAULT", DUKE, ALICE),
    ("DEFAULT,DEFAULT", DUKE, ALICE),
    ("", None, None),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke", None),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke", None),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U, DEFAULT", "DUKE", ALICE),
    ("RULE:^CN=([^,]+),.*$/$1@$2/", "Duke@$2", "Alice Ågren@$2"),
    ("RULE:^CN=([^,]+),.*$/$12/", "Duke2", "Alice Ågren2"),
    ("RULE:^CN=([^,]+),.*$/$01/", "Duke", "Alice Ågren"),
    ("RULE:^(C)(N)=([^,]+),.*$/$31-$4/", "Duke1-$4", "Alice Ågren1-$4"),
    (r"RULE:CN=(\w+).*/\$1-$1/", "$1-Duke", "$1-Alice"),
    ("RULE:.*/fixed/", "fixedfixed", "fixedfixed"),
    ("RULE:^CN=(?<who>[^,]+),.*$/${who}/", "Duke", "Alice Ågren"),
    ("RULE:(.*)/$1/", DUKE, ALICE),
    ("RULE:[^,]*,?/x/", None, None),
    ("RULE:^CN=([^,]+).*$/$0/", DUKE, ALICE),
    (r"RULE:a\/b/c\/d/", None, None),
    (r"RULE:.*/a\/b/", "a/ba/b", "a/ba/b"),
    (r"RULE:^CN=(\w+)([^,]*),.*$/$2$1/", "Duke", " ÅgrenAlice"),
    ("RULE:.*//L", "", ""),
    (
        "RULE:^CN=Bob$/no/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L,DEFAULT",
        "duke@serviceusers",
        ALICE,
    ),
    ("RULE:^CN=(.*),OU=ServiceUsers.*$/$1/L ,  RULE:^.*$/other/", "duke", "other"),
]


@pytest.mark.parametrize(("der", "name"), NAMES_OF_JAVA.items())
def test_a_distinguished_name_is_written_as_java_writes_it(der: str, name: str) -> None:
    assert rfc2253_name(bytes.fromhex(der)) == name


@pytest.mark.parametrize(
    "der",
    [
        "",
        "30",
        "3001",
        "3000ff",
        "310100",
        "30053103300106",
        "30023100",
        "300d310b3009060355848381",
        "3080",
        "3085" + "ff" * 9,
    ],
)
def test_bytes_that_are_no_distinguished_name_are_refused(der: str) -> None:
    with pytest.raises(ValueError, match="distinguished name"):
        rfc2253_name(bytes.fromhex(der))


def test_no_bytes_raise_anything_but_a_value_error() -> None:
    rng = random.Random(20)
    valid = [bytes.fromhex(der) for der in NAMES_OF_JAVA]
    for _ in range(20_000):
        data = bytearray(rng.choice(valid) if rng.random() < 0.8 else rng.randbytes(rng.randrange(40)))
        for _ in range(rng.randrange(4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            rfc2253_name(bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data))
        except ValueError:
            pass


@pytest.mark.parametrize(("rules", "duke", "alice"), RULES_OF_KAFKA)
def test_rules_give_the_principals_that_kafka_gives(rules: str, duke: str | None, alice: str | None) -> None:
    mapper = SslPrincipalMapper(rules)
    for name, expected in ((DUKE, duke), (ALICE, alice)):
        if expected is None:
            with pytest.raises(LookupError, match="No rules apply"):
                mapper.name(name)
        else:
            assert mapper.name(name) == expected


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ("garbage", "Invalid rule: `garbage`, unmatched substring: `garbage`"),
        ("DEFAULTX", "unmatched substring: `X`"),
        ("RULE:a", "unmatched substring"),
        ("RULE:a/b", "unmatched substring"),
        ("RULE:a/b/X", "unmatched substring: `X`"),
        ("RULE:(/x/", "not a regular expression"),
        ("RULE:.*/$1/", "has a reference without a group"),
        ("RULE:(.*)/${who}/", "has a reference without a group"),
        ("RULE:(.*)/$/", "has a reference without a group"),
    ],
)
def test_wrong_rules_are_refused_with_the_rule(rules: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        SslPrincipalMapper(rules)
    assert text in str(caught.value)


def test_no_rules_raise_anything_but_a_value_error() -> None:
    rng = random.Random(21)
    alphabet = [
        "RULE:",
        "DEFAULT",
        "/",
        "$1",
        "$",
        "\\",
        "(",
        ")",
        "*",
        "[",
        "a",
        ",",
        "L",
        "{",
        "}",
        "?",
        "<",
        ">",
        " ",
    ]
    for _ in range(5_000):
        rules = "".join(rng.choice(alphabet) for _ in range(rng.randrange(12)))
        try:
            SslPrincipalMapper(rules).name("CN=a")
        except (ValueError, LookupError):
            pass


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [
        ("alice", "alice"),
        ("a b", "a%20b"),
        ("a+b", "a%2Bb"),
        ("a*b", "a%2Ab"),
        ("a/b", "a%2Fb"),
        ("a%b", "a%25b"),
        ("a~b", "a%7Eb"),
        ("Ü€𝄞", "%C3%9C%E2%82%AC%F0%9D%84%9E"),
        ("a@x.com", "a%40x.com"),
        ("_-.", "_-."),
        ("<default>", "%3Cdefault%3E"),
        ("CN=a,O=b", "CN%3Da%2CO%3Db"),
        ("", ""),
    ],
)
def test_names_are_sanitized_as_kafka_sanitizes_them(name: str, sanitized: str) -> None:
    assert sanitize(name) == sanitized
    assert desanitize(sanitized) == name
