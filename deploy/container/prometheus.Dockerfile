# Prometheus, as Debian packages it, on the figures of the label party of docker-compose.yml.
FROM debian:bookworm-slim
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends prometheus \
    && rm -rf /var/lib/apt/lists/*
COPY deploy/container/prometheus.yml deploy/monitoring/alerts.yml /etc/splitveil/
RUN promtool check config --syntax-only /etc/splitveil/prometheus.yml && promtool check rules /etc/splitveil/alerts.yml \
    && install -d -o 10001 /prometheus
USER 10001
CMD ["prometheus", "--config.file=/etc/splitveil/prometheus.yml", "--storage.tsdb.path=/prometheus"]
