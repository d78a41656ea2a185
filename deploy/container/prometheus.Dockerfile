# Prometheus, as Debian packages it, on the figures of the label party of docker-compose.yml.
FROM debian:bookworm-slim
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends prometheus \
    && rm -rf /var/lib/apt/lists/*
COPY deploy/container/prometheus.yml deploy/monitoring/alerts.yml /etc/splitveil/
RUN promtool check config /etc/splitveil/prometheus.yml && install -d -o 10001 /prometheus
USER 10001
CMD ["prometheus", "--config.file=/etc/splitveil/prometheus.yml", "--storage.tsdb.path=/prometheus"]
