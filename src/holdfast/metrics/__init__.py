"""The machine in Prometheus: metrics, alert rules and a dashboard."""
