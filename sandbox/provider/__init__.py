"""Stand-in for the `gcp` provider: the SDK's own types, Google's rules for the types we use, and a world to fill.

Plain functions over a `World`; what drives them (the engine in process, a plug-in later) brings plain values:
camelCase keys, no unknowns, no secret wrappers.
"""
