# One image for every role: `fleet controller`, `fleet api`, `fleet migrate`. How to build and verify it: docs/image.md.
# tests/image carries out these instructions without a container engine; it knows the forms that are used here.

# The Python that the tests run on. The digest decides, so change both; without one, the tag does.
ARG PYTHON=3.11.14-slim-bookworm
ARG PYTHON_DIGEST=sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d

# --- the virtual environment ------------------------------------------------------------------------------------------

FROM python:${PYTHON}${PYTHON_DIGEST:+@${PYTHON_DIGEST}} AS build
ENV PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PIP_CACHE_DIR=/var/cache/pip PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src

# What others wrote changes less often than what we write, so it comes first.
COPY requirements/image.txt requirements/build.txt requirements/sbom.py requirements/
RUN --mount=type=cache,target=/var/cache/pip \
    python -m venv --without-pip /opt/fleet && \
    pip --python /opt/fleet/bin/python install --quiet --no-compile --no-deps --require-hashes --only-binary :all: \
      --requirement requirements/image.txt
RUN --mount=type=cache,target=/var/cache/pip \
    python -m venv --without-pip /opt/build && \
    pip --python /opt/build/bin/python install --quiet --no-compile --no-deps --require-hashes --only-binary :all: \
      --requirement requirements/build.txt
RUN python requirements/sbom.py requirements/image.txt /opt/fleet/sbom.cdx.json

# Arguments that are other ones for every commit come late: whatever stands below them is carried out anew.
ARG SOURCE_DATE_EPOCH=315532800
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH}
ARG TAG=""
ARG REVISION=""
ARG CREATED=""
ENV FLEET_BUILD_TAG=${TAG} FLEET_BUILD_REVISION=${REVISION} FLEET_BUILD_CREATED=${CREATED}
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY fleet fleet
COPY api api
COPY plugins plugins
COPY migrations migrations
RUN /opt/build/bin/python -m hatchling build --target wheel --directory /tmp/wheel && \
    pip --python /opt/fleet/bin/python install --quiet --no-compile --no-deps --no-index /tmp/wheel/*.whl

# The root file system is read-only at run time: what is not compiled now is compiled at every start. One worker, so
# that the result is the same every time; and the times of files, because layers contain them.
RUN python -m compileall -q -j 1 --invalidation-mode unchecked-hash /opt/fleet/lib && \
    find /opt/fleet -exec touch --no-dereference --date=@${SOURCE_DATE_EPOCH} {} +

# --- the image --------------------------------------------------------------------------------------------------------

FROM python:${PYTHON}${PYTHON_DIGEST:+@${PYTHON_DIGEST}} AS image

# The base brings an installer that nobody needs here, and leaves the standard library uncompiled. -f: whatever ran
# before may have left files that would be compared with their sources at every start.
RUN python -B -m pip uninstall --quiet --yes --root-user-action ignore pip setuptools wheel && \
    rm -rf /usr/local/lib/python3.11/ensurepip && \
    python -m compileall -q -f -j 1 --invalidation-mode unchecked-hash -x '/tests?/' /usr/local/lib/python3.11
COPY --from=build /opt/fleet /opt/fleet

# HOME: the user has no entry in the list of users, and /tmp is the one folder that it may write to.
ENV PATH=/opt/fleet/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
USER 65532:65532
EXPOSE 8080 8081 8090
ENTRYPOINT ["fleet"]

ARG VERSION=""
ARG REVISION=""
ARG CREATED=""
LABEL org.opencontainers.image.title="fleet" \
      org.opencontainers.image.description="Decides which member clusters a Kubernetes workload runs on, and says why" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
