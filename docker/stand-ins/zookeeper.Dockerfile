# A stand-in for the official image zookeeper:3.9, from Debian's package: it takes the same environment variables.
#
#   docker build -t kafkalite-stand-in/zookeeper -f docker/stand-ins/zookeeper.Dockerfile docker/stand-ins
ARG BASE=kafkalite-stand-in/base
FROM ${BASE}
# The start scripts of Java's package want a folder of manuals.
RUN apt-get update -q \
 && mkdir -p /usr/share/man/man1 \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends zookeeper \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
COPY zookeeper-entrypoint.sh /docker-entrypoint.sh
RUN chmod 755 /docker-entrypoint.sh \
 && mkdir -p /conf /data /datalog \
 && chown zookeeper:zookeeper /conf /data /datalog
USER zookeeper
VOLUME ["/data", "/datalog"]
EXPOSE 2181 2888 3888 8080
ENTRYPOINT ["/docker-entrypoint.sh"]
