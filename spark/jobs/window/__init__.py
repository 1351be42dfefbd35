"""The job `window_agg` aggregates messages in windows and sessions by event time. No other package uses this one."""
