"""The job `window_agg`: windows and sessions by event time. Nothing else uses this package."""
