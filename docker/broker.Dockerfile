# One broker. The wheel is built first, by Python on the host:
#
#   pip wheel --no-deps -w dist .
#   docker build -t kafkalite -f docker/broker.Dockerfile .
#
# Where no package index answers, dist/ has the wheels of everything (docs/deploy.md) and PIP_ARGS is --no-index; where
# no image registry answers, BASE is the image that docker/stand-ins/base.sh makes.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
ARG PIP_ARGS=""
COPY dist/*.whl /dist/
RUN python3 -m venv /opt/kafkalite \
 && /opt/kafkalite/bin/pip install --quiet --no-cache-dir --disable-pip-version-check ${PIP_ARGS} \
        --find-links /dist "$(ls /dist/kafkalite-*.whl)[security]" \
 && /opt/kafkalite/bin/pip uninstall --quiet --yes pip \
 && find /opt/kafkalite -depth -type d \( -name test -o -name tests \) -exec rm -rf {} +
COPY docker/entrypoint.py docker/security.py docker/serving.py /opt/kafkalite/

FROM ${BASE}
RUN groupadd --system --gid 1001 kafkalite \
 && useradd --system --uid 1001 --gid kafkalite --home-dir /var/lib/kafkalite --shell /usr/sbin/nologin kafkalite \
 && install -d -o kafkalite -g kafkalite -m 0750 /var/lib/kafkalite /run/kafkalite \
 && install -d /etc/kafkalite
COPY --from=build /opt/kafkalite /opt/kafkalite
ENV PATH=/opt/kafkalite/bin:$PATH
# Python's own modules come without bytecode, and the user may not write any: what a start needs is compiled here.
RUN python3 -I -c "import kafkalite.broker.process, kafkalite.broker.server, twisted.internet.reactor"
USER kafkalite
VOLUME /var/lib/kafkalite
EXPOSE 9092
# "Healthy" is "serving": the broker answers a request for metadata, by which it is in the cluster's list of brokers.
HEALTHCHECK --interval=5s --timeout=4s --retries=6 CMD ["python3", "-I", "-S", "/opt/kafkalite/serving.py"]
# Process 1 is the broker itself, so that SIGTERM reaches it: a controlled shutdown. Words behind the image's name are
# commands of kafkalite instead (docker run kafkalite topics --list …).
ENTRYPOINT ["python3", "-I", "/opt/kafkalite/entrypoint.py"]
