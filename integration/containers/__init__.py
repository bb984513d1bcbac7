"""The system in containers: images, compose files, testcontainers, faults by real means."""
