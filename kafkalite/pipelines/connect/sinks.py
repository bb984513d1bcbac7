"""Micro-batches into files; every reader sees each micro-batch once.

Answers to: Kafka Connect's HDFS and S3 sinks, which name files by offsets. Shell.

Spark's own file sink leaves the files of interrupted attempts among the others, and only Spark knows which ones count.
Here a micro-batch is written into a hidden folder; a manifest with the final names is the decision; then the files are
renamed into place. A repeated micro-batch finds the manifest, and continues the renaming.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from kafkalite.pipelines.store import Store

HIDDEN = "_kafkalite"
"""The folder below the target for unfinished files. Spark, Arrow and Hive ignore names with an underscore."""


@dataclass(frozen=True)
class Files:
    """Files of ``format`` below ``path``, in folders by the values of ``partition_by``."""

    format: str
    path: str
    partition_by: Sequence[str] = ()
    writer: Mapping[str, str] = field(default_factory=dict)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write the micro-batch ``batch_id`` of the streaming query that calls this."""
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        store = Store(frame.sparkSession, self.path)
        staged, manifest = f"{HIDDEN}/{query}", f"{HIDDEN}/{query}.json"
        decided = store.read(manifest)
        if decided is None or decided["batch"] != batch_id:
            writer = frame.write.format(self.format).options(**self.writer).mode("overwrite")
            writer.partitionBy(*self.partition_by).save(store.join(staged))
            decided = {"batch": batch_id, "moves": final_names(list(store.walk(staged)), staged, batch_id, query)}
            store.write(manifest, decided)
        for name, final in decided["moves"].items():
            store.move(name, final)
        store.remove(staged)


def final_names(names: Sequence[str], staged: str, batch_id: int, query: str) -> dict[str, str]:
    """The final places of the files below ``staged``: the same folders, with names by micro-batch and query."""
    found: dict[str, str] = {}
    for name in names:
        folder, _, file = name[len(staged) + 1 :].rpartition("/")
        if file.startswith("part-"):
            suffix = file[file.index(".") :] if "." in file else ""
            final = f"part-{batch_id:06d}-{len(found):04d}-{query[:8]}{suffix}"
            found[name] = f"{folder}/{final}" if folder else final
    return found
