"""A pipeline's client settings as librdkafka has them: it must find what Spark's source will find."""

from __future__ import annotations

import pytest

from kafkalite.pipelines.admin import check_topics, librdkafka_settings
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.pipeline import Pipeline

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'


def test_tls_and_sasl() -> None:
    kafka = {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN,
        "ssl.truststore.location": "ca.pem",
        "ssl.keystore.location": "me.pem",
        "fetch.min.bytes": "5",
    }
    assert librdkafka_settings(kafka) == {
        "bootstrap.servers": "a:1,b:2",
        "client.id": "kafkalite-pipeline",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "me.pem",
        "ssl.key.location": "me.pem",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_kerberos() -> None:
    module = "com.sun.security.auth.module.Krb5LoginModule required"
    kafka = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f'{module} useKeyTab=true keyTab="/k" principal="u@R";',
    }
    assert librdkafka_settings(kafka) == {
        "bootstrap.servers": "a:1",
        "client.id": "kafkalite-pipeline",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": "/k",
        "sasl.kerberos.principal": "u@R",
    }


def test_without_any() -> None:
    assert librdkafka_settings({"bootstrap.servers": "a:1", "client.id": "me"}) == {
        "bootstrap.servers": "a:1",
        "client.id": "me",
        "security.protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize(
    "kafka", [{"bootstrap.servers": "here"}, {"bootstrap.servers": "a:1", "security.protocol": "x"}]
)
def test_invalid_settings_are_refused(kafka: dict[str, str]) -> None:
    with pytest.raises(PipelineError, match=r"^p\.toml \[kafka\]: Invalid "):
        check_topics(Pipeline("p", "connect", kafka, where="p.toml"), ["t"])
