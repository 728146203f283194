# One image for `tersely serve`, `gateway` and `up`, hence all extras: slim, non-root, everything pinned by hash.
FROM python:3.12-slim AS build
WORKDIR /build
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN python -m venv /app && /app/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
RUN python -m venv /tools && /tools/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY pyproject.toml hatch_build.py README.md LICENSE NOTICE ./
COPY src/ src/
# Nothing is fetched here: hatchling comes from requirements/build.txt, what tersely[all] needs from requirements/runtime.txt.
RUN /tools/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /app/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 tersely && mkdir /data && chown tersely /data
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH PYTHONUNBUFFERED=1 TERSELY_HOST=0.0.0.0 TERSELY_DATA_DIR=/data
USER 10001
VOLUME /data
EXPOSE 8007
HEALTHCHECK --interval=15s --timeout=5s --retries=3 --start-period=10s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://localhost:8007/health')"]
CMD ["tersely", "serve"]
