"""Prometheus with the configuration, the rules and the dashboard of ``docker/monitoring``, beside a live cluster."""
