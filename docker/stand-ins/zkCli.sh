#!/bin/bash
# The command line of ZooKeeper, as the official image has it.
exec java -Dorg.slf4j.simpleLogger.defaultLogLevel=error \
    -cp "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar" org.apache.zookeeper.ZooKeeperMain "$@"
