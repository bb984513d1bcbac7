"""All configuration keys as a page: ``python -m kafkalite.broker.config_doc > docs/configuration.md``.

Answers to: ``org.apache.kafka.common.config.ConfigDef.toHtml`` and ``kafka.server.KafkaConfig.main``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalite.broker.authorizer_keys import ACL_AUTHORIZER, AUTHORIZER_CONFIGS
from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.broker.unserved_security_keys import UNSERVED_SECURITY_CONFIGS
from kafkalite.common.config import ConfigDef, ConfigKey
from kafkalite.log.log_config import TOPIC_CONFIGS

_INTRODUCTION = """\
# Configuration

Names, types and defaults are those of Apache Kafka 3.9; the few keys of our own say so. A name that neither
Kafka nor kafkalite knows is warned of at the start; one that only Kafka knows is accepted and has no effect, unless
it asks for security ([below](#security)); a wrong value is refused with the name, the value and what is allowed.
`kafkalite config --explain NAME` prints one row, with a link to Kafka's documentation. This page is made from the code
by `python -m kafkalite.broker.config_doc`.

`server.properties` gives a broker's values, `--override name=value` wins over it. A key whose update mode is
*per-broker* or *cluster-wide* may be changed while brokers run, by `kafkalite configs --entity-type brokers`
or in `/config/brokers`: a broker's own override wins over the one for all (`<default>`), that over
`server.properties`, that over the default.
"""
_SECURITY = """\
## Security

kafkalite cannot load Java classes, and does not ask whether certificates of ZooKeeper were revoked. A broker that
ignored such a setting would be open although its configuration says that it is not. So any other value of these keys
than the allowed one stops the start, also behind `listener.name.…`, and is refused as a dynamic configuration. Keys
that only say how such a feature works (`ssl.keymanager.algorithm`, `sasl.kerberos.kinit.cmd`) are accepted; the start
warns that they have no effect.
"""
_AUTHORIZER = f"""\
## Authorizer

Keys of Kafka's authorizer, which has no table of its own: they are read at the start, and only with
`authorizer.class.name={ACL_AUTHORIZER}`.
"""
_TOPICS = """\
## Topics

Overrides of a topic: `kafkalite topics --create --config …`, `kafkalite configs --entity-type topics`, or
`/config/topics`. Every broker obeys them live. Where a topic overrides nothing, the broker's key of the last
column gives the value.
"""


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(
        [
            _INTRODUCTION,
            *_brokers(BROKER_CONFIGS),
            "",
            *_authorizer(),
            "",
            *_security(),
            "",
            _TOPICS,
            *_topics(TOPIC_CONFIGS),
            "",
        ]
    )


def _brokers(definition: ConfigDef) -> Iterator[str]:
    yield "## Brokers\n"
    yield "| name | type | default | allowed | update mode | meaning |"
    yield "|---|---|---|---|---|---|"
    for key in sorted(definition.keys.values(), key=lambda key: key.name):
        yield f"| `{key.name}` | {_type(key)} | {_default(key)} | {key.limits()} | {key.update.value} | {_text(key)} |"


def _authorizer() -> Iterator[str]:
    yield _AUTHORIZER
    yield "| name | type | default | allowed | meaning |"
    yield "|---|---|---|---|---|"
    for key in sorted(AUTHORIZER_CONFIGS.keys.values(), key=lambda key: key.name):
        yield f"| `{key.name}` | {_type(key)} | {_default(key)} | {key.limits()} | {_text(key)} |"


def _security() -> Iterator[str]:
    yield _SECURITY
    yield "| name | meaning |"
    yield "|---|---|"
    refusing = [key for key in UNSERVED_SECURITY_CONFIGS.keys.values() if key.check]
    for key in sorted(refusing, key=lambda key: key.name):
        yield f"| `{key.name}` | {_text(key)} |"


def _topics(definition: ConfigDef) -> Iterator[str]:
    yield "| name | type | default | allowed | meaning | broker's key |"
    yield "|---|---|---|---|---|---|"
    for key in sorted(definition.keys.values(), key=lambda key: key.name):
        broker_key = f"`{key.broker_key}`" if key.broker_key else ""
        yield f"| `{key.name}` | {_type(key)} | {_default(key)} | {key.limits()} | {_text(key)} | {broker_key} |"


def _type(key: ConfigKey) -> str:
    return key.type.name.lower()


def _default(key: ConfigKey) -> str:
    text = key.render(key.default)
    if text is None:
        return "none"
    return f"`{text}`" if text else "empty"


def _text(key: ConfigKey) -> str:
    # A bracket that is followed by a parenthesis would be a link.
    return key.doc.replace("|", "\\|").replace("](", "]\\(")


if __name__ == "__main__":
    print(page(), end="")
