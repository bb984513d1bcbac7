"""The generated documents are as new as the sources, and the sources keep the rules that no linter knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration import diagrams, generated_docs
from integration.diagrams.recording import RecordedWorld
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.world import World

ROOT = Path(__file__).resolve().parents[1]
# kazoo's and Twisted's ready-made pieces that wait, or copy, where a broker must not.
UNWANTED = re.compile(
    r"^\s*(?:from|import) (?:kazoo\.(?:recipe|handlers\.(?:eventlet|gevent))|twisted\.protocols)", re.M
)
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "kafkalite").rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)


@pytest.mark.parametrize("document", generated_docs.DOCUMENTS)
def test_a_generated_document_is_as_new_as_the_sources(document: str) -> None:
    assert (ROOT / document).read_text() == generated_docs.DOCUMENTS[document](), (
        f"{document} is older than the sources: run `{generated_docs.COMMAND}`"
    )


@pytest.mark.parametrize("path", diagrams.DIAGRAMS)
def test_a_diagram_is_as_new_as_its_sources(path: str) -> None:
    found = diagrams.diagram(path)
    assert (ROOT / path).read_text() == found, f"{path} is older than its sources: run `{diagrams.COMMAND}`"
    # Each page of the site that shows it has its whole text, and the site stays small.
    assert len(found.encode()) < 20_000


def test_a_recorded_history_is_the_same_as_one_that_is_not() -> None:
    digests = set()
    for world in (World(1), RecordedWorld(1)):
        with world, SimCluster(world) as cluster:
            if isinstance(world, RecordedWorld):
                world.record(cluster)
                world.watch()
            cluster.start_all()
            digests.add(world.digest())
    assert len(digests) == 1


def test_the_traps_were_found() -> None:
    assert len(generated_docs.traps()) > 100


TESTS = """
%: kafkalite/log/log.py: A record
# is lost.
%: kafkalite/zk/zk_client.py: An answer is early.
@pytest.mark.parametrize("way", (1, 2))
def test_a(way: int) -> None:
    # no part of the text
    pass
""".replace("%", "# trap")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test file of a repository with the two modules that ``TESTS`` names."""
    monkeypatch.setattr(generated_docs, "ROOT", tmp_path)
    for module in ("log/log.py", "zk/zk_client.py"):
        (tmp_path / "kafkalite" / module).parent.mkdir(parents=True)
        (tmp_path / "kafkalite" / module).touch()
    return tmp_path / "test_it.py"


def test_a_trap_is_read_with_its_test(path: Path) -> None:
    path.write_text(TESTS)
    assert [(trap.module, trap.test, trap.text) for trap in generated_docs.traps_of(path)] == [
        ("kafkalite/log/log.py", "test_a", "A record is lost."),
        ("kafkalite/zk/zk_client.py", "test_a", "An answer is early."),
    ]


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (TESTS.replace("def test_a", "def helper"), "stands above no test"),
        (TESTS.replace("@pytest", "\n@pytest"), "stands above no test"),
        (TESTS.replace("zk/zk_client.py", "zk/gone.py"), "a module that exists"),
        (TESTS.replace("kafkalite/zk/zk_client.py: ", ""), "a module that exists"),
    ],
)
def test_a_trap_without_test_or_module_is_refused(broken: str, complaint: str, path: Path) -> None:
    path.write_text(broken)
    with pytest.raises(ValueError, match=complaint):
        list(generated_docs.traps_of(path))


@pytest.mark.parametrize(
    ("docstring", "classes"),
    [
        ("Answers to: ``kafka.a.{Ab,Cd.E}`` and\n``Fg``. Pure, unlike ``Hi``.", ["kafka.a.Ab", "kafka.a.Cd.E", "Fg"]),
        (
            "Answers to: ``common.utils.Xy``, the thread\nof ``kafka-run-class.sh``.",
            ["org.apache.kafka.common.utils.Xy"],
        ),
        ("Answers to: nothing in Kafka; what ``kafka.a.Ab`` writes. Pure.", []),
        ("It helps ``kafka.a.Ab``.", []),
    ],
)
def test_classes_of_a_docstring(docstring: str, classes: list[str]) -> None:
    assert generated_docs.answers_to(docstring) == classes


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_answers_to(module: str) -> None:
    text = generated_docs.module_docstring(ROOT / module)
    assert "Answers to:" in text, f"{module}: no Kafka class is named"


# trap: kafkalite/zk/kazoo_client.py: kazoo's recipes block the reactor: none is used.
# trap: kafkalite/protocol/frames.py: Twisted's framing copies partial frames, and limits their size: kafkalite finds
# frames itself.
@pytest.mark.parametrize("module", MODULES)
def test_nothing_blocks_the_reactor_by_design(module: str) -> None:
    """kazoo's recipes block; Twisted's framing copies what it has of a frame with every read."""
    assert not UNWANTED.search((ROOT / module).read_text())


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "README.md", "docs/architecture.md"])
def test_paths_in_a_document_exist(document: str) -> None:
    """A path is what stands in backticks and begins with a folder of the repository."""
    text = (ROOT / document).read_text().partition("\n## Names that changed")[0]
    paths = re.findall(r"`((?:kafkalite|tests|integration|docs|zk_schema)(?:/[\w./]+)?)`", text)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
