"""Pipelines on the shared Spark and the shared cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from integration.pipelines.postgres import Postgres, postgres
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.failures import summary
from kafkalite.pipelines.pipeline import parse
from kafkalite.pipelines.runner import load_job


@dataclass(frozen=True)
class Pipelines:
    """Runs the pipeline of a TOML file once, in this process; ``folder`` has a folder of state for each name."""

    spark: SparkSession
    cluster: LocalCluster
    folder: Path

    def run(self, name: str, tables: str, job: str = "connect") -> None:
        """Process all existing records; the next run of the ``name`` continues after them. Raises ``PipelineError``."""
        head = f'name = "{name}"\njob = "{job}"\ntrigger.once = true\nkafka."bootstrap.servers" = "{self.bootstrap}"\n'
        pipeline = parse(head + tables, "test.toml")
        loaded = load_job(pipeline)
        try:
            for query in loaded.module.start(Context(self.spark, pipeline, self.folder / name), loaded.options):
                query.awaitTermination()
        except StreamingQueryException as error:
            raise PipelineError(summary(error)) from error

    @property
    def bootstrap(self) -> str:
        """``host:port,…`` of the cluster's brokers."""
        return self.cluster.bootstrap


@pytest.fixture
def pipelines(spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path) -> Pipelines:
    """Pipelines whose state is deleted after the test."""
    return Pipelines(spark, shared_cluster, tmp_path / "state")


@pytest.fixture(scope="session")
def database() -> Iterator[Postgres]:
    """A PostgreSQL server for all tests; each test makes its own databases."""
    with postgres() as server:
        yield server
