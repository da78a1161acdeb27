"""Sample jobs: a Python entry point and a flow."""
