"""A wrong pipeline has an error of one line, without Python's traceback or Java's stack trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.harness.clients import fresh_topic
from integration.harness.commands import process
from integration.pipelines.conftest import Pipelines
from integration.pipelines.postgres import Postgres
from integration.spark.topics import new_topic
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.runner import load_job, read_pipeline

GOOD = """\
name = "p"
job = "connect"
kafka."bootstrap.servers" = "BOOTSTRAP"
[source]
type = "topic"
topic = "TOPIC"
schema = "id INT, name STRING"
[sink]
type = "parquet"
path = "out"
"""
FILES = [
    ('name = "p', 'name = p"', "this is not TOML: Invalid value (at line 1, column 8)"),
    ("[sink]", "[snik]", "unknown key 'snik' (did you mean 'sink'?)"),
    ('topic = "TOPIC"\n', "", "[source]: the key 'topic' is missing"),
    ('path = "out"', "path = 3", "[sink]: 'path' must be a text, not 3"),
    ('path = "out"', 'pth = "out"', "[sink]: unknown key 'pth' (did you mean 'path'?)"),
    ('"parquet"', '"avro"', "[sink]: no type 'avro'; known are topic, parquet, csv, json, jdbc"),
    ('job = "connect"', 'job = "conect"', "no job 'conect'; known are connect, "),
    ('name = "p"', 'name = "P p"', "name 'P p' may have"),
    ('"BOOTSTRAP"', '"${env:NOBODY_SET_THIS}"', "the variable NOBODY_SET_THIS of the environment is not set"),
    ("[sink]", '[errors]\npolicy = "ignore"\n[sink]', "[errors]: 'policy' must be one of fail, skip, dead-letter"),
    ("[sink]", "[trigger]\ninterval = 'soon'\n[sink]", "[trigger]: interval 'soon' is no time such as '5 seconds'"),
    (
        '"parquet"\npath = "out"',
        '"jdbc"\nurl = "http://x/y?password=z"\ntable = "t"\nkey = "id"',
        "[sink]: url 'http://x/y' is none such as jdbc:postgresql://host/database",
    ),
    ('"TOPIC"', '"nobody-made-this"', "no topic 'nobody-made-this' at BOOTSTRAP: create it, or correct its name"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), FILES)
def test_errors_found_before_spark_starts(
    shared_cluster: LocalCluster, tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    file = tmp_path / "p.toml"
    assert right in GOOD
    file.write_text(GOOD.replace(right, wrong).replace("BOOTSTRAP", shared_cluster.bootstrap).replace("TOPIC", "t"))
    with pytest.raises(PipelineError) as caught:
        load_job(read_pipeline(file))
    assert str(caught.value).startswith(str(file))
    assert message.replace("BOOTSTRAP", shared_cluster.bootstrap) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.full
def test_a_pipeline_without_reachable_brokers_fails(tmp_path: Path) -> None:
    """The command prints only one line."""
    file = tmp_path / "p.toml"
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    file.write_text(GOOD.replace("BOOTSTRAP", nowhere))
    done = process("pipeline", "run", file, "--state", tmp_path / "state", code=1)
    assert done.out == ""
    [line] = done.err.splitlines()
    assert line.startswith(f"kafkalite pipeline: {file}: no broker of {nowhere} answers")
    status = process("pipeline", "status", "p", "--json", "--state", tmp_path / "state", code=1).json
    assert [one["state"] for one in status] == ["failed"]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    done = process("pipeline", "run", tmp_path / "p.toml", code=1)
    assert done.err == f"kafkalite pipeline: {tmp_path}/p.toml: No such file or directory\n"


SOURCE = 'source = { type = "topic", topic = "TOPIC", schema = "id INT, name STRING" }\n'
TABLE = 'source = { type = "jdbc", url = "URL", table = "customers", incrementing = "id" }\n'
TO_TOPIC = 'sink = { type = "topic", topic = "TOPIC" }\n'
TO_FILES = 'sink = { type = "parquet", path = "FOLDER" }\n'
TO_TABLE = 'sink = { type = "jdbc", url = "URL", table = "customers", key = "id" }\n'
WITH_SPARK = [
    (SOURCE.replace("INT", "IMT") + TO_FILES, "[source]: schema 'id IMT, name STRING'"),
    (SOURCE + TO_FILES.replace(" }", ', partition_by = "city" }'), "[sink]: partition_by: no column 'city'"),
    (SOURCE + TO_TABLE.replace("customers", "nobody"), 'relation "nobody" does not exist'),
    (SOURCE + TO_TABLE, "[sink]: table customers has no column 'name'; it has id"),
    (
        SOURCE.replace(", name STRING", "") + TO_TABLE.replace('"id"', '"nr"'),
        "[sink]: key: no column 'nr'; there are id",
    ),
    (TABLE.replace("customers", "nobody") + TO_TOPIC, 'relation "nobody" does not exist'),
    (TABLE.replace('"id"', '"number"') + TO_TOPIC, 'column "number" does not exist'),
    (TABLE.replace("URL", "jdbc:postgresql://127.0.0.1:NOWHERE/x") + TO_TOPIC, "NOWHERE/x: Connection refused"),
    (TABLE.replace("URL", "jdbc:mysql://127.0.0.1/x") + TO_TOPIC, "the driver com.mysql.cj.jdbc.Driver is not there"),
]


@pytest.mark.parametrize(("tables", "message"), WITH_SPARK)
def test_errors_found_by_spark(
    pipelines: Pipelines, database: Postgres, tmp_path: Path, tables: str, message: str
) -> None:
    """Errors of the other end: schemas, tables, columns, addresses, drivers."""
    shop = fresh_topic("shop").replace("-", "_")
    database.create(shop)
    database.sql("CREATE TABLE customers (id INT PRIMARY KEY)", shop)
    topic, nowhere = new_topic(pipelines.cluster, "bad"), str(free_ports(1)[0])
    given = {"TOPIC": topic, "URL": database.jdbc_url(shop), "NOWHERE": nowhere, "FOLDER": f"{tmp_path}/out"}
    for word, value in given.items():
        tables = tables.replace(word, value)
    with pytest.raises(PipelineError) as caught:
        pipelines.run("bad", tables)
    said = str(caught.value)
    assert message.replace("NOWHERE", nowhere) in said
    assert "\n" not in said
    assert not any(word in said for word in ("Traceback", "at org.", "Exception:", "user=")), said
