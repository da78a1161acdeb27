"""What `pulumi up` runs: the stack's values, the resources, the exports."""

from __future__ import annotations

import pulumi
from pulumi.runtime import config

from infra.stack import deploy
from infra.values import load_settings
from runtime.contract.settings.faults import SettingsError


def program() -> None:
    """Deploys the current stack.

    Raises:
        RunError: the stack's values do not hold; a line for each fault, and no resource exists yet.
    """
    values = {**config.get_config_env(), **config.CONFIG.get()}
    secret_keys = {key for key in values if config.is_config_secret(key)} | set(config.get_config_secret_keys_env())
    try:
        exports = deploy(load_settings(values, secret_keys, pulumi.get_stack()))
    except SettingsError as error:
        raise pulumi.RunError("\n".join(error.lines)) from None
    for name, value in exports.items():
        pulumi.export(name, value)
