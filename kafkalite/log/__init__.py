"""One replica's log on disk, and all logs of a broker. Deterministic."""
