"""Tests of the connection's settings, contexts and HTTP client."""
