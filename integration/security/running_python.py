"""Pairs of :mod:`integration.security.running_pair` with confluent-kafka, kafka-python and aiokafka."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

from integration.security.running_pair import PAUSE, RunningPair

POLL = 0.1


def start(*work: Callable[[RunningPair], None], pair: RunningPair) -> None:
    """Run each of ``work`` in a thread; its exceptions become errors of the pair."""

    def guarded(call: Callable[[RunningPair], None]) -> None:
        try:
            call(pair)
        except Exception as error:
            pair.errors.append(repr(error))

    for each in work:
        thread = threading.Thread(target=guarded, args=(each,), daemon=True, name=pair.name)
        pair.threads.append(thread)
        thread.start()


def start_confluent(pair: RunningPair) -> None:
    """librdkafka."""
    start(_confluent_producer, _confluent_consumer, pair=pair)


def _confluent_settings(pair: RunningPair) -> dict[str, Any]:
    def told(error: KafkaError) -> None:
        pair.errors.append(f"{error.name()}: {error.str()}")

    settings: dict[str, Any] = {**pair.login.librdkafka, "error_cb": told, "log_level": 0}
    token = pair.login.token
    if token is not None:
        settings["oauth_cb"] = lambda _: _in_good_time(*token())
    return settings


def _in_good_time(token: str, end: float) -> tuple[str, float]:
    """The token with half of its life, so that the next is there also if the machine stalls for seconds."""
    return token, (time.time() + end) / 2


def _confluent_producer(pair: RunningPair) -> None:
    producer = Producer({**_confluent_settings(pair), "enable.idempotence": True, "linger.ms": 0})

    def acknowledge(number: int) -> Callable[[KafkaError | None, object], None]:
        def take(error: KafkaError | None, _: object) -> None:
            if error is None:
                pair.acknowledged.append(number)
            else:
                pair.failures.append(str(error))

        return take

    password = None
    while not pair.stopping.is_set():
        if pair.password != password:
            password = pair.password
            producer.set_sasl_credentials(pair.login.librdkafka["sasl.username"], password)
        producer.produce(
            pair.topic, str(pair.sent).encode(), partition=pair.partition, on_delivery=acknowledge(pair.sent)
        )
        pair.sent += 1
        producer.poll(PAUSE)
    producer.flush(1.0)


def _confluent_consumer(pair: RunningPair) -> None:
    consumer = Consumer({**_confluent_settings(pair), "group.id": pair.name, "enable.auto.commit": False})
    consumer.assign([TopicPartition(pair.topic, pair.partition, 0)])
    password = None
    while not pair.closing.is_set():
        if pair.password != password:
            password = pair.password
            consumer.set_sasl_credentials(pair.login.librdkafka["sasl.username"], password)
        for record in consumer.consume(100, POLL):
            if record.error():
                pair.errors.append(str(record.error()))
            else:
                pair.read.append(int(record.value() or b"-1"))
    consumer.close()


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens for kafka-python."""

    def __init__(self, pair: RunningPair) -> None:
        super().__init__()
        self._pair = pair

    def token(self) -> str:
        """A token."""
        assert self._pair.login.token is not None
        return self._pair.login.token()[0]


class _AioTokens(AioTokenProvider):  # type: ignore[misc]
    """Tokens for aiokafka."""

    def __init__(self, pair: RunningPair) -> None:
        self._pair = pair

    async def token(self) -> str:
        """A token."""
        assert self._pair.login.token is not None
        return self._pair.login.token()[0]


_NAMES = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


def _python_settings(pair: RunningPair) -> dict[str, Any]:
    settings: dict[str, Any] = {_NAMES[key]: value for key, value in pair.login.librdkafka.items() if key in _NAMES}
    settings["ssl_context"] = create_ssl_context(cafile=pair.login.librdkafka["ssl.ca.location"])
    return settings


def start_kafka_python(pair: RunningPair) -> None:
    """kafka-python."""
    start(_python_producer, _python_consumer, pair=pair)


def _kafka_python_settings(pair: RunningPair) -> dict[str, Any]:
    tokens = {} if pair.login.token is None else {"sasl_oauth_token_provider": _Tokens(pair)}
    return {**_python_settings(pair), **tokens}


def _python_producer(pair: RunningPair) -> None:
    producer = KafkaProducer(**_kafka_python_settings(pair), enable_idempotence=True)
    while not pair.stopping.wait(PAUSE):
        number = pair.sent
        pair.sent += 1
        try:
            sent = producer.send(pair.topic, str(number).encode(), partition=pair.partition)
        except Exception as error:
            pair.failures.append(repr(error))
            continue
        sent.add_callback(lambda _, number=number: pair.acknowledged.append(number))
        sent.add_errback(lambda error: pair.failures.append(repr(error)))
    producer.close(timeout=1.0)


def _python_consumer(pair: RunningPair) -> None:
    consumer = KafkaConsumer(**_kafka_python_settings(pair), enable_auto_commit=False)
    partition = PythonTopicPartition(pair.topic, pair.partition)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    while not pair.closing.is_set():
        try:
            polled = consumer.poll(timeout_ms=int(POLL * 1000))
        except Exception as error:
            pair.errors.append(repr(error))
            pair.closing.wait(PAUSE)
            continue
        for records in polled.values():
            pair.read.extend(int(record.value) for record in records)
    consumer.close()


def start_aiokafka(pair: RunningPair) -> None:
    """aiokafka, both clients in an event loop of their own."""
    start(lambda pair: asyncio.run(_aiokafka(pair)), pair=pair)


async def _aiokafka(pair: RunningPair) -> None:
    settings = _python_settings(pair)
    if pair.login.token is not None:
        settings["sasl_oauth_token_provider"] = _AioTokens(pair)
    producer = AIOKafkaProducer(**settings, enable_idempotence=True)
    consumer = AIOKafkaConsumer(**settings, enable_auto_commit=False)
    await producer.start()
    await consumer.start()
    partition = AioTopicPartition(pair.topic, pair.partition)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    reading = asyncio.create_task(_aiokafka_read(consumer, pair))
    while not pair.stopping.is_set():
        await _aiokafka_send(producer, pair)
        await asyncio.sleep(PAUSE)
    reading.cancel()
    await consumer.stop()
    await asyncio.wait_for(producer.stop(), 5.0)


async def _aiokafka_send(producer: AIOKafkaProducer, pair: RunningPair) -> None:
    number = pair.sent
    pair.sent += 1

    def told(outcome: asyncio.Future[object]) -> None:
        error = outcome.exception()
        if error is None:
            pair.acknowledged.append(number)
        else:
            pair.failures.append(repr(error))

    try:
        sent = await producer.send(pair.topic, str(number).encode(), partition=pair.partition)
    except Exception as error:
        pair.failures.append(repr(error))
    else:
        sent.add_done_callback(told)


async def _aiokafka_read(consumer: AIOKafkaConsumer, pair: RunningPair) -> None:
    while not pair.closing.is_set():
        try:
            polled = await consumer.getmany(timeout_ms=int(POLL * 1000))
        except Exception as error:
            pair.errors.append(repr(error))
            await asyncio.sleep(PAUSE)
            continue
        for records in polled.values():
            pair.read.extend(int(record.value or b"-1") for record in records)
