"""Tests of the clients that a person runs in a terminal."""
