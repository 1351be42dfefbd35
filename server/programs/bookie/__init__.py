"""The process `magnetar bookie`: what a bookie needs beside its storage and its port to be a member of a cluster."""
