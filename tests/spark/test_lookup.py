"""The data source's class without Spark, and how Spark finds it by itself."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.cloudpickle import dumps
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql.datasource import DataSource
from pyspark.sql.worker import lookup_data_sources

import kafkalite.spark
from kafkalite.spark import DeferredClass
from kafkalite.spark.source import KafkaliteDataSource

ROOT = Path(__file__).parents[2]
LOOKUP = ROOT / "kafkalite" / "spark" / "lookup"
WITHOUT_SPARK = "import sys; sys.modules['pyspark'] = None\n"
"""In a process that begins so, importing PySpark fails as if it were not installed."""


def python(program: str) -> subprocess.CompletedProcess[str]:
    """A new interpreter that has run ``program``."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def deferred() -> DeferredClass:
    return DeferredClass("kafkalite.spark.source", "KafkaliteDataSource")


def test_the_import_of_the_class_does_not_import_spark() -> None:
    done = python(
        "import sys\n"
        "from kafkalite.spark import KafkaliteDataSource\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'pyspark', 'pyarrow', 'numba', 'pandas'}))\n"
        "print(KafkaliteDataSource.name(), 'pyspark' in sys.modules)\n"
    )
    assert (done.stdout, done.stderr) == ("[]\nkafkalite True\n", "")


@pytest.mark.parametrize(
    "use",
    [
        "KafkaliteDataSource({})",
        "KafkaliteDataSource.name()",
        "exec('class Mine(KafkaliteDataSource): pass')",
        "isinstance(1, KafkaliteDataSource)",
        "issubclass(int, KafkaliteDataSource)",
    ],
)
def test_without_spark_the_class_is_imported_and_its_use_says_what_to_install(use: str) -> None:
    done = python(
        f"{WITHOUT_SPARK}from kafkalite.spark import KafkaliteDataSource\n"
        f"print(KafkaliteDataSource)\ntry:\n    {use}\nexcept ImportError as error:\n    print(error)\n"
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "<deferred class 'kafkalite.spark.source.KafkaliteDataSource'>",
        "kafkalite.spark.KafkaliteDataSource needs PySpark 4.1 or newer, which is not installed for "
        f"{sys.executable}: pip install 'kafkalite[spark]'",
    ]


def test_a_module_that_lacks_another_library_names_that_library() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'kafkalite\.not_there'"):
        DeferredClass("kafkalite.not_there", "Some").load()


def test_the_deferred_class_serves_as_the_class(deferred: DeferredClass) -> None:
    made = deferred({"subscribe": "t"})
    assert type(made) is KafkaliteDataSource
    assert made.options == {"subscribe": "t"}
    assert deferred.__instancecheck__(made)
    assert deferred.__subclasscheck__(KafkaliteDataSource)

    class Mine(deferred):  # type: ignore[misc, valid-type]
        pass

    assert issubclass(Mine, KafkaliteDataSource)
    assert kafkalite.spark.KafkaliteDataSource.name() == "kafkalite"


def test_spark_receives_the_class_itself_when_the_deferred_class_is_registered(deferred: DeferredClass) -> None:
    """Spark pickles what is registered; its Python processes refuse all but subclasses of ``DataSource``."""
    assert pickle.loads(dumps(deferred)) is KafkaliteDataSource
    assert pickle.loads(dumps(kafkalite.spark.KafkaliteDataSource)) is KafkaliteDataSource


def test_sparks_own_lookup_finds_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LOOKUP))
    out = io.BytesIO()
    lookup_data_sources._main(io.BytesIO(), out)
    out.seek(0)
    found = {}
    for _ in range(read_int(out)):
        name = UTF8Deserializer().loads(out)
        found[name] = pickle.loads(out.read(read_int(out)))
    assert found["kafkalite"] is KafkaliteDataSource
    assert issubclass(found["kafkalite"], DataSource)


def test_the_folder_of_the_lookup_has_no_other_top_level_name() -> None:
    """The folder goes onto Python's path, so each of its names would hide another package of the user's."""
    assert [path.name for path in LOOKUP.iterdir() if path.name != "__pycache__"] == ["pyspark_kafkalite"]
