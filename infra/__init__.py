"""The Pulumi program: what is deployed, wired from one set of validated settings."""
