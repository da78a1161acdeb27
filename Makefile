# One target for each thing a person or CI does; CI and the guide call the same ones.
.DEFAULT_GOAL := help
