"""Sockets: the Kafka front door, connections to other brokers, control requests as bytes. Reactor shell."""
