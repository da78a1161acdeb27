# The one image of every service. The base is named by digest: what it is changes by a commit and not by itself.
ARG BASE=docker.io/library/python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

FROM ${BASE} AS build
RUN python -m pip install --no-cache-dir --disable-pip-version-check uv==0.13.9
WORKDIR /app
COPY pyproject.toml uv.lock ./
# Exactly `project.dependencies`, each with the hash that the lock file has for it.
RUN uv export --frozen --no-default-groups --no-emit-project --output-file /tmp/requirements.txt \
    && uv venv /opt/venv \
    && uv pip install --python /opt/venv --no-cache --no-deps --require-hashes -r /tmp/requirements.txt \
    && rm pyproject.toml uv.lock
COPY runtime runtime
# Your own jobs: what `holdfast:engines` names is imported from here.
COPY jobs jobs
# Compiled once, here: an instance writes nothing, and starts sooner.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /app /opt/venv/lib

FROM ${BASE}
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app /app
WORKDIR /app
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PORT=8080
USER 10001:10001
STOPSIGNAL SIGTERM
# The role is given by the service: `python -m runtime ROLE`.
ENTRYPOINT ["python", "-m", "runtime"]
