"""Cloud Run on one machine: routes requests to declared services and runs their instances as processes."""
