"""Tests of the commands on messages: their rules, their options, and what they do without a server."""
