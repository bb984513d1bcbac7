"""Brokers log in to one another by OAUTHBEARER; ``KAFKALITE_TEST_BROKER=kafka`` runs it against Kafka 3.9.1."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from integration.conftest import ClusterFactory
from integration.harness.wait import wait_for
from integration.security.sasl_cluster import LISTENER, SaslCluster
from integration.security.token_endpoint import CLIENT, SECRET, TokenEndpoint
from kafkalite.common.token_endpoint import ClientCredentials, RefusedTokenError, fetch_token
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.errors import AuthenticationError

TIMEOUT = 60.0
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PREFIX = f"listener.name.{LISTENER.lower()}.oauthbearer.sasl"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
BETWEEN_BROKERS = {
    "inter.broker.listener.name": LISTENER,
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    # A broker that has another name may neither replicate nor take part in the cluster.
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": f"User:{CLIENT};User:ANONYMOUS",
    "min.insync.replicas": "3",
}

CLIENT_PROPERTIES = f"""\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.token.endpoint.url={{url}}
sasl.jaas.config={MODULE} clientId="{CLIENT}" clientSecret="{SECRET}" scope="a kafka/scope";
"""


def produce_for(secured: SaslCluster, seconds: float) -> None:
    """Records that every broker has to have, for so long; all are acknowledged."""
    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    admin.create_topics([NewTopic("replicated", 3, 3)])["replicated"].result(TIMEOUT)
    producer = Producer({"bootstrap.servers": secured.cluster.bootstrap, "acks": "all"})
    failures: list[object] = []
    end = time.monotonic() + seconds
    while True:
        producer.produce("replicated", b"x", callback=lambda error, _: failures.append(error) if error else None)
        assert producer.flush(TIMEOUT) == 0
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    assert failures == []


def kafkalite(secured: SaslCluster, command: str, *arguments: str, stdin: str = "") -> str:
    """What a command says at the SASL listeners."""
    line = [sys.executable, "-m", "kafkalite.cli.main", command, "--bootstrap-server", secured.bootstrap, *arguments]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def logs(secured: SaslCluster) -> str:
    return "".join(secured.cluster.log_file(broker_id).read_text() for broker_id in secured.cluster.broker_ids)


@pytest.mark.full
def test_brokers_log_in_by_signed_tokens_that_are_replaced_before_they_end(
    make_cluster: ClusterFactory, tmp_path: Path
) -> None:
    """Our own commands, too, have theirs from the endpoint."""
    with TokenEndpoint(life=5) as endpoint:
        secured = SaslCluster(
            make_cluster,
            {
                **BETWEEN_BROKERS,
                f"{PREFIX}.jaas.config": f'{MODULE} clientId="{CLIENT}" clientSecret="{SECRET}" scope="a kafka/scope";',
                f"{PREFIX}.login.callback.handler.class": f"{PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
                f"{PREFIX}.server.callback.handler.class": f"{PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
                f"{PREFIX}.oauthbearer.token.endpoint.url": endpoint.url("token"),
                f"{PREFIX}.oauthbearer.jwks.endpoint.url": endpoint.url("jwks"),
                f"{PREFIX}.oauthbearer.expected.audience": "kafka",
            },
            3,
        ).start()
        begin = endpoint.given
        # Longer than a token lives, so that followers go on only if they log in by another one.
        produce_for(secured, 7)
        wait_for(lambda: endpoint.given >= begin + 3, "every broker has replaced its token")
        config = tmp_path / "client.properties"
        config.write_text(CLIENT_PROPERTIES.format(url=endpoint.url("token")))
        assert "replicated" in kafkalite(secured, "topics", "--list", "--command-config", str(config)).split()
        where = ("--producer.config", str(config), "--topic", "replicated")
        kafkalite(secured, "produce", *where, stdin="one\n")
        spark = {
            "bootstrap.servers": secured.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url("token"),
            "sasl.jaas.config": f'{MODULE} clientId="{CLIENT}" clientSecret="{SECRET}" scope="a kafka/scope";',
        }
        with ClusterConnections(ClientConfig.from_kafka(spark)) as connections:
            assert list(connections.topics(["replicated"])) == ["replicated"]
        wrong = {**spark, "sasl.jaas.config": f'{MODULE} clientId="{CLIENT}" clientSecret="planted-wrong";'}
        with (
            ClusterConnections(ClientConfig.from_kafka(wrong)) as connections,
            pytest.raises(AuthenticationError, match=r"no token .* answers 401") as refused,
        ):
            connections.topics(["replicated"])
        assert "planted" not in str(refused.value)
        said = logs(secured)
    assert SECRET not in said
    assert "eyJ" not in said


@pytest.mark.full
def test_brokers_log_in_by_tokens_without_a_signature_where_that_is_configured(make_cluster: ClusterFactory) -> None:
    validator = f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    lifetime = 'unsecuredLoginLifetimeSeconds="2"'
    settings = {
        **BETWEEN_BROKERS,
        f"{PREFIX}.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="{CLIENT}" {lifetime};',
        f"{PREFIX}.server.callback.handler.class": validator,
    }
    produce_for(SaslCluster(make_cluster, settings, 3).start(), 5)


def test_a_token_endpoint_that_refuses_or_talks_nonsense_is_told_from_one_that_may_recover() -> None:
    with TokenEndpoint(life=60) as endpoint:
        right = ClientCredentials(endpoint.url("token"), CLIENT, SECRET, "a kafka/scope")
        assert fetch_token(right).count(".") == 2
        with pytest.raises(RefusedTokenError, match="401") as refused:
            fetch_token(replace(right, client_secret="planted-wrong"))
        assert "planted" not in str(refused.value)
        for status, kind in ((503, OSError), (0, ValueError)):
            endpoint.failure = status
            with pytest.raises(kind):
                fetch_token(right)
    with pytest.raises(OSError, match="refused"):
        fetch_token(right)
    with pytest.raises(RefusedTokenError, match="begins with none of https, http, file"):
        fetch_token(replace(right, url="ftp://idp/token"))
