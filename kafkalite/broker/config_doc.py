"""All configuration keys as a page: ``python -m kafkalite.broker.config_doc > docs/configuration.md``.

Answers to: ``org.apache.kafka.common.config.ConfigDef.toHtml`` and ``kafka.server.KafkaConfig.main``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.common.config import ConfigDef, ConfigKey
from kafkalite.log.log_config import INT_MAX, LONG_MAX, TOPIC_CONFIGS

_INTRODUCTION = """\
# Configuration

Names, types and defaults are those of Apache Kafka 3.9; the few keys of our own say so. A name that neither
Kafka nor kafkalite knows is warned of at the start; one that only Kafka knows is accepted and has no effect;
a wrong value is refused with the name, the value and what is allowed. This page is made from the code by
`python -m kafkalite.broker.config_doc`.

`server.properties` gives a broker's values, `--override name=value` wins over it. A key whose update mode is
*per-broker* or *cluster-wide* may be changed while brokers run, by `kafkalite configs --entity-type brokers`
or in `/config/brokers`: a broker's own override wins over the one for all (`<default>`), that over
`server.properties`, that over the default.
"""
_TOPICS = """\
## Topics

Overrides of a topic: `kafkalite topics --create --config …`, `kafkalite configs --entity-type topics`, or
`/config/topics`. Every broker obeys them live. Where a topic overrides nothing, the broker's key of the last
column gives the value.
"""


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([_INTRODUCTION, *_brokers(BROKER_CONFIGS), "", _TOPICS, *_topics(TOPIC_CONFIGS), ""])


def _brokers(definition: ConfigDef) -> Iterator[str]:
    yield "## Brokers\n"
    yield "| name | type | default | allowed | update mode | meaning |"
    yield "|---|---|---|---|---|---|"
    for key in sorted(definition.keys.values(), key=lambda key: key.name):
        yield f"| `{key.name}` | {_type(key)} | {_default(key)} | {_allowed(key)} | {key.update.value} | {_text(key)} |"


def _topics(definition: ConfigDef) -> Iterator[str]:
    yield "| name | type | default | allowed | meaning | broker's key |"
    yield "|---|---|---|---|---|---|"
    for key in sorted(definition.keys.values(), key=lambda key: key.name):
        broker_key = f"`{key.broker_key}`" if key.broker_key else ""
        yield f"| `{key.name}` | {_type(key)} | {_default(key)} | {_allowed(key)} | {_text(key)} | {broker_key} |"


def _type(key: ConfigKey) -> str:
    return key.type.name.lower()


def _default(key: ConfigKey) -> str:
    text = key.render(key.default)
    if text is None:
        return "none"
    return f"`{text}`" if text else "empty"


def _allowed(key: ConfigKey) -> str:
    if key.choices:
        return ", ".join(key.choices)
    low, high = key.minimum, key.maximum
    if high is not None and high in (INT_MAX, LONG_MAX):
        high = None
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    if low is not None:
        return f"at least {low:g}"
    return f"at most {high:g}" if high is not None else ""


def _text(key: ConfigKey) -> str:
    return key.doc.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
