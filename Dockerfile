# One image for every role and for the mock providers: `docker run ringonce sender --channel firebase`, `... router`,
# `... ringonce mock --name firebase --host 0.0.0.0 --port 8091`.

FROM python:3.11-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

RUN useradd --system --user-group --no-create-home --shell /usr/sbin/nologin ringonce

# The dependencies first, each checked against its hash: this layer changes only when they do.
COPY requirements/runtime.txt /tmp/requirements.txt
RUN pip install --require-hashes --requirement /tmp/requirements.txt
# Ours was built here, from the source above; what it needs is already installed.
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels pip install --no-deps /wheels/*.whl

USER ringonce
WORKDIR /tmp
# Orderly stop on SIGTERM: the process drains before it exits, so a runtime should grant it some seconds.
STOPSIGNAL SIGTERM
CMD ["ringonce", "--help"]
