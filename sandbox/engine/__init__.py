"""Runs the Pulumi program: in process against a world, or with the real engine."""
