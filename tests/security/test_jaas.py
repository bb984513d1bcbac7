"""Login modules, alone and in sections of a JAAS file."""

from __future__ import annotations

import random

import pytest

from kafkalite.security.jaas import JaasConfig

FILE = """
// for brokers
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="a" password="} Client { x";
};
/* Client { no.Module required; }; */
# a line of another kind
Client {
   org.apache.zookeeper.server.auth.DigestLoginModule required
   username="kafka"
   password="se//cr#et\\"";
};
"""


@pytest.mark.parametrize(
    ("text", "module", "options"),
    [
        ("x.ScramLoginModule required;", "x.ScramLoginModule", {}),
        (
            'x.PlainLoginModule required\n  username="admin"\n  password="a\\"b;= c"\n  user_alice="p";',
            "x.PlainLoginModule",
            {"username": "admin", "password": 'a"b;= c', "user_alice": "p"},
        ),
        ("x.Y REQUIRED a=b c = d ;", "x.Y", {"a": "b", "c": "d"}),
    ],
)
def test_jaas_is_parsed(text: str, module: str, options: dict[str, str]) -> None:
    config = JaasConfig.parse(text)
    assert (config.module, config.options) == (module, options)


@pytest.mark.parametrize(
    "text",
    ["", "hush", "x.Y hush;", "x.Y required", 'x.Y required password="hush', "x.Y required password hush;",
     "x.Y required password=;", 'x.Y required password="hush" =;', 'x.Y required password="hush";; '],
)  # fmt: skip
def test_malformed_jaas_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"JAAS configuration .*allowed is") as caught:
        JaasConfig.parse(text)
    assert "hush" not in str(caught.value)


def test_no_jaas_raises_anything_else() -> None:
    rng = random.Random(24)
    parts = ["x.Y", " ", "required", "=", ";", '"', "\\", "a", "\n"]
    for _ in range(10_000):
        try:
            JaasConfig.parse("".join(rng.choice(parts) for _ in range(rng.randrange(14))))
        except ValueError:
            pass


def test_a_section_is_read_as_java_reads_it() -> None:
    found = JaasConfig.of_section(FILE, "Client")
    assert found is not None
    assert found.module == "org.apache.zookeeper.server.auth.DigestLoginModule"
    assert found.options == {"username": "kafka", "password": 'se//cr#et"'}
    server = JaasConfig.of_section(FILE, "KafkaServer")
    assert server is not None and server.options["password"] == "} Client { x"


def test_a_missing_section_is_none() -> None:
    assert JaasConfig.of_section(FILE, "Server") is None
    assert JaasConfig.of_section("", "Client") is None


def test_a_malformed_section_is_refused_without_its_text() -> None:
    with pytest.raises(ValueError, match="malformed") as caught:
        JaasConfig.of_section('Client { module username="hush"; };', "Client")
    assert "hush" not in str(caught.value)
