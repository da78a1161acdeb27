"""The rules as a page.

    python -m policies.document

writes `docs/policies.md`; `--check` only says whether the page is up to date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from .rule import Rule, Scope
from .rules import RULES

PAGE: Final = Path("docs/policies.md")
_GROUPS: Final = {
    "T": "Timeouts",
    "D": "Dead letters",
    "I": "Identity and grants",
    "X": "Exposure",
    "R": "Runtime",
    "S": "State",
    "L": "Labels and names",
}
_INTRODUCTION: Final = """\
# Policies

The policy pack in `policies/` judges any Pulumi program that runs jobs on Cloud Run behind Pub/Sub. It looks at the
resources alone: what a resource leaves out is the platform's default, and what cannot be read yet breaks the rule that
needs it. Nothing that it says repeats a value that could be a secret.

    pulumi preview --policy-pack "$PWD/policies/run"

The path is a whole one, because the engine starts the pack in the folder of the program, which may be another one.
`policies/run` starts the pack with `$PYTHON`, or else with the environment `.venv` beside it or beside the pack, or
else with `python3` from the path. The folder can be used by itself: what it needs is in `requirements.txt`, and
`pulumi install` in the folder, or `python3 -m venv .venv && .venv/bin/pip install -r requirements.txt`, makes the
environment that `PulumiPolicy.yaml` names.

## Configuration

`policies/holdfast.json` comes with the pack, and names the API as public. A stack that needs other levels or settings
has a file of its own, which is laid over it: `--policy-pack-config FILE`. Keys are ids of rules; `all` is for the rest.
A rule is set to a level, or to a mapping with its settings and, where it differs, `enforcementLevel`:

    {"all": "mandatory", "D11": "disabled", "R06": {"enforcementLevel": "advisory", "max_instances": 20}}

Levels: `mandatory` stops the deployment, `advisory` is shown, `disabled` is not asked. Where "asked" is `resource`, a
rule is asked before its resource is touched; where it is `stack`, at the end of a preview, with all resources at hand.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    yield f"## The {len(RULES)} rules\n"
    for letter, rules in groupby(RULES, key=lambda rule: rule.id[0]):
        yield f"### {letter}: {_GROUPS[letter]}\n"
        for rule in rules:
            yield from _entry(rule)


def _entry(rule: Rule) -> Iterator[str]:
    asked = "resource" if rule.scope is Scope.RESOURCE else "stack"
    yield f"**{rule.id}. {rule.summary}.** {rule.severity}, {rule.level}, asked: {asked}.  "
    yield f"Otherwise {rule.breaks}.  "
    yield f"{rule.fix}."
    for name, option in rule.options.items():
        default = option.default if isinstance(option.default, int) else ", ".join(option.default) or "none"
        yield f"\nSetting `{name}`: {option.meaning}; default: {default}."
    yield ""


def main(arguments: list[str]) -> int:
    """Writes or checks the page; 1 where it is not up to date."""
    parser = argparse.ArgumentParser(prog="policies.document")
    parser.add_argument("--check", action="store_true", help="write nothing")
    if not parser.parse_args(arguments).check:
        PAGE.write_text(page())
        return 0
    if PAGE.exists() and PAGE.read_text() == page():
        return 0
    sys.stdout.write(f"{PAGE} is not up to date: run `python -m policies.document`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
