"""The metrics that Grafana's published dashboards for Pulsar ask for, and our own dashboards and alerts, held against
the pages of running servers. This folder uses the harness that starts servers, and nothing else of ours."""
