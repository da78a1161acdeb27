"""The built-in engine: a graph of steps as JSON, run on the event loop under fixed limits. See docs/flow-format.md."""
