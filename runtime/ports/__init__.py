"""What the services need of the outside, as Protocols. No implementation, no cloud import."""
