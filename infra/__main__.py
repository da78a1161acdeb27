"""Entry point of the Pulumi program."""

from infra.program import program

program()
