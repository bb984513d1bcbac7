"""Data pipelines on Spark: jobs described by one TOML file each."""
