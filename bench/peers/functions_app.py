"""functions-framework as it comes: flask under gunicorn, one process of threads."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from flask import Request

from bench.peers.verification import Jobs, PushTokens, Refused
from bench.setup import Setup

setup = Setup.read()
tokens = PushTokens(Path(setup.jwks).read_bytes(), setup.audience, setup.account)
jobs = Jobs(setup.job_public)


def push(request: Request) -> tuple[str, int]:
    """Decodes, verifies, acknowledges."""
    try:
        tokens.check(request.headers.get("Authorization"))
    except Refused:
        return "", 401
    envelope = request.get_json()
    message = envelope["message"]
    base64.b64decode(message["data"], validate=True)
    if not message["messageId"] or envelope["subscription"] != setup.subscription:
        return "", 403
    return "", 204


def execute(request: Request) -> tuple[dict[str, object], int]:
    """Verifies a job and answers as if it had run."""
    job = json.loads(request.get_data())
    try:
        jobs.check(job)
    except Refused:
        return {}, 401
    return {"run_id": job["run_id"], "status": "completed", "state": "succeeded", "status_code": 200}, 200
