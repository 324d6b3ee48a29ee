"""The machine in the words of Prometheus: metrics, alert rules and a dashboard."""
