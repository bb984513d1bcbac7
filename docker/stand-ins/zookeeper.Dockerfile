# A stand-in for the official image zookeeper:3.9, from Debian's ZooKeeper: it takes the same environment variables.
#
#   docker build -t kafkalite-stand-in/zookeeper -f docker/stand-ins/zookeeper.Dockerfile docker/stand-ins
#
# The library's package has the server; the one named zookeeper would add only a service's scripts and a desktop's Java.
ARG BASE=kafkalite-stand-in/base
FROM ${BASE}
# The scripts of Java's package want a folder of manuals.
RUN apt-get update -q \
 && mkdir -p /usr/share/man/man1 \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        default-jre-headless libslf4j-java libzookeeper-java \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
RUN groupadd --system --gid 1000 zookeeper \
 && useradd --system --uid 1000 --gid zookeeper --home-dir /data --shell /usr/sbin/nologin zookeeper \
 && install -d -o zookeeper -g zookeeper /conf /data /datalog
COPY zookeeper-entrypoint.sh /docker-entrypoint.sh
COPY zkCli.sh /usr/local/bin/
USER zookeeper
VOLUME ["/data", "/datalog"]
EXPOSE 2181 2888 3888 8080
ENTRYPOINT ["/docker-entrypoint.sh"]
