"""How long a partition is without its leader: ``kill -9``, SIGTERM, and a broker that dies with its guardian."""
