"""The command line: one command a file, with Kafka's own flags."""
