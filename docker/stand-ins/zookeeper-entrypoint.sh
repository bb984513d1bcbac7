#!/bin/bash
# /conf/zoo.cfg from the environment variables of the official image, then the server in place of this shell.
set -eu

config=/conf/zoo.cfg
if [[ ! -f $config ]]; then
    {
        echo "dataDir=/data"
        echo "dataLogDir=/datalog"
        echo "tickTime=${ZOO_TICK_TIME:-2000}"
        echo "initLimit=${ZOO_INIT_LIMIT:-5}"
        echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
        echo "autopurge.snapRetainCount=${ZOO_AUTOPURGE_SNAPRETAINCOUNT:-3}"
        echo "autopurge.purgeInterval=${ZOO_AUTOPURGE_PURGEINTERVAL:-0}"
        echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
        echo "standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}"
        echo "admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-true}"
        if [[ -z ${ZOO_SERVERS:-} ]]; then
            echo "clientPort=2181"
        fi
        for server in ${ZOO_SERVERS:-}; do
            echo "$server"
        done
        if [[ -n ${ZOO_4LW_COMMANDS_WHITELIST:-} ]]; then
            echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"
        fi
        for extra in ${ZOO_CFG_EXTRA:-}; do
            echo "$extra"
        done
    } >"$config"
fi
[[ -f /data/myid ]] || echo "${ZOO_MY_ID:-1}" >/data/myid

# The server's jar names most of what it needs itself, but not all that TLS needs of Netty.
jars=/usr/share/java
netty=$jars/netty-codec.jar:$jars/netty-resolver.jar:$jars/netty-transport-native-unix-common.jar
# shellcheck disable=SC2086 # JVMFLAGS are words
exec java ${JVMFLAGS:-} \
    -Dorg.slf4j.simpleLogger.defaultLogLevel="${ZOO_LOG_LEVEL:-info}" -Dorg.slf4j.simpleLogger.showDateTime=true \
    -cp "/conf:$jars/zookeeper.jar:$jars/slf4j-simple.jar:$netty" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$config"
