"""The `pulumi` command: where it is, and how it is built from its Go module."""
