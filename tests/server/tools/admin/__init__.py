"""Tests of `magnetar admin`."""
