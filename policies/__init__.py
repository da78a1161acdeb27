"""Policy pack: rules over the resources of a program that runs jobs on Cloud Run behind Pub/Sub.

Imports nothing of the project around it, so that it can be used on any program.
"""
