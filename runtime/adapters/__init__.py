"""Implementations of the ports, one file each."""
