"""The system in containers: images, compose files, testcontainers, faults by Docker and iptables."""
