"""Sockets: the Kafka front door, connections to other brokers, the control plane. Reactor shell."""
