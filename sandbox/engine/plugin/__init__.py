"""The stand-in provider as a plug-in of the real engine: the same functions as in process, over gRPC."""
