"""Schemas of the messages that kafka-python lacks, in the form of Kafka's own message definitions.

Answers to: ``clients/src/main/resources/common/message`` of Kafka. Pure: data only, which ``codec`` reads.
"""
