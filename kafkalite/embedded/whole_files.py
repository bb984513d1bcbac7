"""Files that are written whole or not at all; only their owner may read those that hold keys and passwords.

Answers to: the ``umask`` and ``chmod 600`` of an operator. Blocking: files.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Write a file of mode 0600, whole or not at all."""
    write_whole(file, text, 0o600)


def write_whole(file: Path, text: str, mode: int = 0o666) -> None:
    """Write a file of ``mode``, less the bits of the umask, whole or not at all."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    # The mode from the start, because another user could read a file that is open to all for a moment.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w") as output:
        output.write(text)
    temporary.replace(file)
