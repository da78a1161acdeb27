"""Logs and metrics, the same for every role."""
