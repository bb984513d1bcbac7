"""``kafkalite configs --explain NAME``: what a configuration means, its default, and how it may be changed.

Answers to: ``org.apache.kafka.common.config.ConfigDef.toHtml``, which writes the pages of Kafka's documentation. Pure,
but for the output.

All values come from the tables of the configurations of brokers, topics, ZooKeeper consumers and Spark's source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches

from kafkalite.admin.dynamic_config import base_name
from kafkalite.broker.authorizer_keys import AUTHORIZER_CONFIGS
from kafkalite.broker.config_keys import BROKER_CONFIGS, KNOWN_CONFIGS, is_known_elsewhere
from kafkalite.cli.clients import print_json
from kafkalite.cli.main import UsageError
from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, Update
from kafkalite.consumer.config import CONSUMER_CONFIGS
from kafkalite.log.log_config import TOPIC_CONFIGS
from kafkalite.spark.source_configs import SOURCE_CONFIGS

BROKER, TOPIC, CONSUMER, SPARK_SOURCE = "broker", "topic", "ZooKeeper consumer", "Spark source"
BROKER_KEYS = ConfigDef((*KNOWN_CONFIGS.keys.values(), *AUTHORIZER_CONFIGS.keys.values()))
TABLES: Mapping[str, ConfigDef] = {
    BROKER: BROKER_KEYS,
    TOPIC: TOPIC_CONFIGS,
    CONSUMER: CONSUMER_CONFIGS,
    SPARK_SOURCE: SOURCE_CONFIGS,
}
"""Who has the configuration → all keys."""
MOST_NEAR = 8
"""Names that are proposed instead of an unknown one."""

_DOCUMENTATION = "https://kafka.apache.org"
_PAGES: Mapping[str, Callable[[str], str]] = {
    BROKER: lambda name: f"{_DOCUMENTATION}/39/configuration/broker-configs/#brokerconfigs_{name}",
    TOPIC: lambda name: f"{_DOCUMENTATION}/39/configuration/topic-level-configs/#topicconfigs_{name}",
    # Kafka 1.1 is the last release with these consumers; its page has no anchors for their settings.
    CONSUMER: lambda _: f"{_DOCUMENTATION}/11/configuration/consumer-configs/",
    SPARK_SOURCE: lambda _: "https://spark.apache.org/docs/3.5.0/structured-streaming-kafka-integration.html",
}
_UPDATES = {
    Update.READ_ONLY: "a broker reads it at its start",
    Update.PER_LISTENER: "may be changed while the broker runs, for one listener: listener.name.NAME.{name}",
    Update.PER_BROKER: "may be changed while the broker runs, for each broker",
    Update.CLUSTER_WIDE: "may be changed while brokers run, for one or for all",
}
_SPARK_NAMES = {name.lower(): key for name, key in SOURCE_CONFIGS.keys.items()}
_KAFKA_PREFIX = "kafka."
_TYPES = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.SHORT: "any whole number of 16 bits",
    ConfigType.INT: "any whole number of 32 bits",
    ConfigType.LONG: "any whole number of 64 bits",
    ConfigType.DOUBLE: "any number",
    ConfigType.LIST: "texts, separated by commas",
}


@dataclass(frozen=True)
class Explanation:
    """A key of a broker, of topics, of a consumer or of Spark's source; ``default`` is ``None`` if there is none.

    ``update`` is Kafka's update mode, ``how`` the same in words. ``related``: the topic keys whose default a broker's
    key gives; for a topic's key, that broker's key. ``documentation``: Kafka's page.
    ``has_effect``: a broker acts on the key, or refuses values of it that it does not serve.
    """

    name: str
    scope: str
    meaning: str
    type: str
    default: str | None
    allowed: str
    update: str
    dynamic: bool
    how: str
    has_effect: bool
    related: tuple[str, ...]
    documentation: str | None


def explain(name: str, *, as_json: bool) -> int:
    """Print what ``name`` is, once for each of :data:`TABLES` that has it. Raises :class:`UsageError` if none has."""
    found = list(find(name))
    if not found:
        raise UsageError(unknown(name))
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        print("\n\n".join(text(each) for each in found))
    return 0


def find(name: str) -> Iterator[Explanation]:
    """The explanations of ``name``; a name with a listener's prefix is the broker's key behind it.

    Options of Spark's source may be written in any case, and all settings of its Kafka client are one option.
    """
    for scope in (BROKER, TOPIC, CONSUMER):
        if name in TABLES[scope]:
            yield _explanation(scope, TABLES[scope][name])
    option = _SPARK_NAMES.get(name.lower())
    if option is None and name.lower().startswith(_KAFKA_PREFIX):
        option = SOURCE_CONFIGS[f"{_KAFKA_PREFIX}*"]
    if option is not None:
        yield _explanation(SPARK_SOURCE, option)
    inner = base_name(name)
    # A key of one SASL mechanism has the mechanism's name before its own.
    for each in (inner, inner.partition(".")[2]):
        if each in BROKER_KEYS:
            yield _explanation(BROKER, BROKER_KEYS[each])


def _explanation(scope: str, key: ConfigKey) -> Explanation:
    if scope == BROKER:
        update, how = key.update.value, _UPDATES[key.update].format(name=key.name)
        related = tuple(each.name for each in TOPIC_CONFIGS.keys.values() if each.broker_key == key.name)
    elif scope == TOPIC:
        update, how = "per-topic", "may be changed while brokers run, for each topic"
        related = (key.broker_key,) if key.broker_key else ()
    else:
        reader = "a consumer" if scope == CONSUMER else "a query"
        update, how, related = Update.READ_ONLY.value, f"{reader} reads it at its start", ()
    is_documented = not (key.is_own or key.is_dynamic_only or key.name in AUTHORIZER_CONFIGS)
    return Explanation(
        name=key.name,
        scope=scope,
        meaning=key.doc,
        type=key.type.name.lower(),
        default=key.render(key.default),
        allowed=key.limits() or _TYPES.get(key.type, "any text"),
        update=update,
        dynamic=update != Update.READ_ONLY.value,
        how=how,
        has_effect=scope != BROKER
        or key.name in BROKER_CONFIGS
        or key.name in AUTHORIZER_CONFIGS
        or key.check is not None,
        related=related,
        documentation=_PAGES[scope](key.name) if is_documented else None,
    )


def text(found: Explanation) -> str:
    """An explanation for a terminal."""
    lines = {
        "type": found.type,
        "default": "none" if found.default is None else found.default or "empty",
        "allowed": found.allowed,
        "update": f"{found.update}: {found.how}",
    }
    if found.related:
        label = "topic key" if found.scope == BROKER else "broker key"
        lines[label] = ", ".join(found.related)
    lines["documentation"] = found.documentation or "Kafka 3.9 has none"
    return "\n".join(
        [f"{found.name} ({found.scope})", f"  {found.meaning}", *(f"  {label:<15}{it}" for label, it in lines.items())]
    )


def unknown(name: str) -> str:
    """Why ``name`` cannot be explained, with the names that come nearest."""
    if is_known_elsewhere(name):
        return f"{name} is a key of a plug-in or of another release: brokers accept it, and it has no effect"
    near = nearest(name)
    hint = f"the nearest names are {', '.join(near)}" if near else "docs/configuration.md and docs/spark.md list all"
    return f"brokers, topics, consumers and Spark's source have no configuration {name!r}; {hint}"


def nearest(name: str) -> list[str]:
    """At most :data:`MOST_NEAR` known names: first those that contain ``name``, then those that are spelled alike."""
    names = sorted({each for definition in TABLES.values() for each in definition.keys})
    wanted = name.strip().lower().replace("_", ".")
    within = sorted((each for each in names if wanted and wanted in each.lower()), key=len)
    small = {each.lower(): each for each in names}
    alike = [small[each] for each in get_close_matches(wanted, small, n=MOST_NEAR, cutoff=0.7)]
    return list(dict.fromkeys([*within, *alike]))[:MOST_NEAR]
