# Operator Lab with PyTorch's CPU build. docs/images.md explains how to build and run it.
#
#   docker build --tag operator-lab .
#   docker run --rm --publish 127.0.0.1:8888:8888 --volume operator-lab:/home/learner/lab operator-lab
#
# PyTorch comes without CUDA, from its own index. --build-arg TORCH_INDEX=ADDRESS names another one; TORCH_INDEX=default takes your
# usual index, whose packages may bring 4 GiB of CUDA libraries.

# A Debian 12 image with a Python that the course supports. Another Debian has other versions of the packages below.
ARG BASE=python:3.12.12-slim-bookworm

# The wheel of the course, from the files of this folder.
FROM ${BASE} AS wheel
WORKDIR /source
COPY . .
RUN python3 -m venv /tools \
    && /tools/bin/pip install --no-cache-dir --constraint requirements.lock hatchling \
    && /tools/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${BASE} AS tools
# Learners compile: the compiler stays. `--isolate` uses bubblewrap where the container may create namespaces.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        'bubblewrap=0.8.0-2*' 'ca-certificates=2*' 'g++=4:12.2.0-3' 'make=4.3-4.1' \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 --shell /bin/bash learner \
    && install --directory --owner learner --group learner /home/learner/lab

# For the dev container (.devcontainer/devcontainer.json), which sets up the clone that is mounted.
FROM tools AS dev
RUN apt-get update \
    && apt-get install --yes --no-install-recommends 'git=1:2.39.5-0*' 'openssh-client=1:9.2p1-2*' \
    && rm -rf /var/lib/apt/lists/*
USER 1000:1000

# What root installs here the learner can read, and not change: the grader, the checks and the reference answers.
FROM tools
WORKDIR /home/learner
ENV PATH=/opt/oplab/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1

# PyTorch first: the largest layer, which changes least often.
ARG TORCH_INDEX
COPY requirements.lock /opt/oplab/
RUN sed -n -E 's/^(torch|torchvision)(==[^ ;]+).*/\1\2/p' /opt/oplab/requirements.lock > /opt/oplab/torch.txt \
    && python3 -m venv /opt/oplab \
    && pip install --no-cache-dir "$(grep '^uv==' /opt/oplab/requirements.lock)" \
    && case "$TORCH_INDEX" in \
        "") set -- --torch-backend cpu ;; \
        default) set -- ;; \
        *) set -- --default-index "$TORCH_INDEX" ;; \
    esac \
    && uv pip install --no-cache --python /opt/oplab/bin/python "$@" --requirement /opt/oplab/torch.txt

# More packages in this environment, such as jupyterhub for a hub.
ARG EXTRA_PACKAGES
COPY --from=wheel /wheels /opt/oplab/wheels
RUN pip install --no-cache-dir --constraint /opt/oplab/requirements.lock /opt/oplab/wheels/*.whl $EXTRA_PACKAGES \
    && rm -r /opt/oplab/wheels \
    && python -c "import pathlib, sys; from oplab.jupyter import settings; settings.write_overrides(pathlib.Path(sys.prefix))" \
    && install --directory --owner learner --group learner /opt/oplab/build
COPY docker/start /usr/local/bin/oplab-start

# The operators, compiled in the folder where they are used. That folder is a volume: docker/start puts a copy there.
USER 1000:1000
ENV HOME=/home/learner
RUN oplab init /home/learner/lab/course \
    && mv /home/learner/lab/course/build/* /opt/oplab/build/ \
    && rm -r /home/learner/lab/course

VOLUME /home/learner/lab
EXPOSE 8888
# Jupyter answers this without a token.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python3", "-c", "import os, urllib.request as u; \
u.urlopen('http://127.0.0.1:8888' + os.environ.get('JUPYTERHUB_SERVICE_PREFIX', '/') + 'api', timeout=5)"]
ENTRYPOINT ["oplab-start"]
