"""Google Cloud on one machine: realises the resources that the Pulumi program declares. Never part of an image."""
