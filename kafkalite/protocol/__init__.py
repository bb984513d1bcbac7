"""Kafka's wire protocol: versions, frames, codecs. Pure."""
