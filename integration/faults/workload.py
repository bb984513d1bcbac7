"""Load on a topic by real clients: producers, consumers, raw readers, and an onlooker in ZooKeeper.

All of them add to one :class:`Record`, under its lock.
"""

from __future__ import annotations

from collections.abc import Mapping

from integration.faults.producers import QUICK_RETRIES, LoadProducer
from integration.faults.readers import Onlooker, RawReader, Verifier, judge
from integration.faults.worker import Record, Worker
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster


class Load:
    """The clients of one topic: start, pause to check the history, resume, stop."""

    def __init__(
        self,
        cluster: LocalCluster,
        topic: str,
        partitions: int,
        *,
        producers: int = 3,
        rate: int = 3000,
        size: int = 64,
        seed: int = 0,
        settings: Mapping[str, object] = QUICK_RETRIES,
    ) -> None:
        self.record = Record(producers, partitions)
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        bootstrap = cluster.bootstrap
        self._producers = [
            LoadProducer(number, self.record, bootstrap, topic, partitions, rate // producers, size, seed, settings)
            for number in range(producers)
        ]
        self._verifier = Verifier(self.record, bootstrap, topic, partitions, "verifier")
        seen: dict[tuple[int, int], int] = {}
        self._readers = [
            RawReader(self.record, cluster.address(broker_id), topic, partitions, seen)
            for broker_id in cluster.broker_ids
        ]
        self._onlooker = Onlooker(self.record, cluster.zookeeper, topic, partitions)
        self._workers: list[Worker] = [*self._producers, *self._readers, self._onlooker]

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self.record.history.acknowledged

    def start(self) -> None:
        """Start all threads."""
        for worker in self._workers:
            worker.start()

    def wait_acknowledged(self, total: int, timeout: float = 120.0) -> None:
        """Wait until ``total`` records have been acknowledged since the start."""
        wait_for(lambda: self.acknowledged >= total or self._failure() is not None, f"{total} acknowledged", timeout)
        self._raise_failure()

    def pause(self) -> None:
        """Stop producing, wait for all acknowledgements, read all records, and check the history.

        Raises ``AssertionError``.
        """
        for producer in self._producers:
            producer.pause()
        self._raise_failure()
        self._verifier.read_to(self._verifier.ends())
        self.judge()

    def resume(self) -> None:
        """Continue producing."""
        for producer in self._producers:
            producer.resume()

    def judge(self) -> None:
        """Raises ``AssertionError`` with all violations so far."""
        with self.record.lock:
            breaches = self.record.history.check() + self.record.epochs.breaches
        assert not breaches, "\n".join(breaches)

    def stop(self) -> None:
        """Pause, read all records again with a new consumer, check the history, and end all threads."""
        self.pause()
        judge(self.record, self._cluster.bootstrap, self._topic, self._partitions)
        self.close()
        self.judge()

    def close(self) -> None:
        """End all threads; raises the exception that ended one of them earlier."""
        for worker in self._workers:
            worker._stopping.set()
        for worker in self._workers:
            worker.stop()
        self._verifier.close()

    def _failure(self) -> BaseException | None:
        return next((worker.failure for worker in self._workers if worker.failure is not None), None)

    def _raise_failure(self) -> None:
        failure = self._failure()
        if failure is not None:
            raise failure
