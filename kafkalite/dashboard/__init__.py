"""The dashboard: a live page that shows what ZooKeeper and the brokers hold, and which znode or request says it."""
