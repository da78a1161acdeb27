"""What runs in the containers: `python -m runtime ROLE`."""
