"""The endurance run: real processes, a steady load and a fault a minute; no measure of the cluster may grow."""
