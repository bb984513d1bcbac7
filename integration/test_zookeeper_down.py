"""ZooKeeper dead or silent for longer than the session timeout: brokers survive, nothing acknowledged is lost."""
