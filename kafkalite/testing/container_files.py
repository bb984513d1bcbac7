"""Files that a container finds when it starts.

Answers to: ``docker cp``. Pure.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """Files in ``folder``, which only the user ``owner`` (a number) of the container can read: name → content."""

    folder: PurePosixPath
    owner: int
    contents: Mapping[str, bytes] = field(repr=False)

    def archive(self) -> bytes:
        """The folder and its files as a tar archive for the root of the container's file system."""
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w") as archive:
            entry = self._entry(self.folder, 0o700)
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
            for name, content in self.contents.items():
                entry = self._entry(self.folder / name, 0o600)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return target.getvalue()

    def _entry(self, path: PurePosixPath, mode: int) -> tarfile.TarInfo:
        entry = tarfile.TarInfo(str(path).lstrip("/"))
        entry.uid = entry.gid = self.owner
        entry.mode = mode
        return entry
