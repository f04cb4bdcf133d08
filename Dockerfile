# syntax=docker/dockerfile:1
# Slipstream with all extras that a service needs, as a user of its own. Build: docker build -t slipstream .
# The first stage has Node and pip; the second only what runs.
FROM docker.io/library/debian:12-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv nodejs npm ca-certificates \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY scripts/image.sh scripts/
# what is locked, with hashes, but without the development tools
RUN scripts/image.sh install
COPY . .
RUN scripts/image.sh package

FROM docker.io/library/debian:12-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 openjdk-17-jre-headless tini procps \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 slipstream \
 && install --directory --owner slipstream --group slipstream /slipstream
COPY --from=build /opt/slipstream /opt/slipstream
COPY scripts/healthcheck.py /usr/local/bin/healthcheck
ENV PATH=/opt/slipstream/bin:$PATH \
    JAVA_HOME=/usr/lib/jvm/default \
    NUMBA_CACHE_DIR=/home/slipstream/.cache/numba
RUN ln -s "$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")" /usr/lib/jvm/default
USER slipstream
WORKDIR /slipstream
VOLUME /slipstream
# a job with --metrics 9105, or a console, whichever this container runs
HEALTHCHECK --interval=30s --timeout=5s --start-period=90s \
  CMD ["python3", "/usr/local/bin/healthcheck"]
ENTRYPOINT ["tini", "-g", "--", "slipstream"]
CMD ["--help"]
