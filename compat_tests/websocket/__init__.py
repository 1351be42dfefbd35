"""Clients of the WebSocket API."""
