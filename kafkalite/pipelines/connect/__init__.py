"""Connect's job: files and tables into topics, topics into files and tables."""
