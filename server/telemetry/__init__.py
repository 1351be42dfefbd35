"""Exports the broker's metrics by OpenTelemetry: this package reads the counters of the broker and its topics, and
gives them to OpenTelemetry's SDK. Only the programs use this package, and only when the environment switches it on
(`OTEL_SDK_DISABLED=false`), because the SDK is an extra that need not be installed.
"""
