"""The words that infrastructure and services share: settings, rules, names, states, outcomes.

Pure Python, standard library only, no input or output: `infra` imports this package while a program is planned,
`runtime` imports it when a process starts, and neither may pay for the other's dependencies.
"""
