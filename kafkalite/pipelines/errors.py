"""The error of a pipeline, for the author of its file.

Answers to: ``org.apache.kafka.connect.errors.ConnectException``. Pure.
"""

from __future__ import annotations

from kafkalite.common.errors import ConfigError


class PipelineError(ConfigError):
    """A pipeline cannot start or continue; the text is one line: the file, the table, the key, and what to do."""
