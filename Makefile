# Operator Lab. `make` alone lists what there is. docs/setup.md explains each message of the set-up.
#
# Every target does the set-up that it needs first; what is done already costs a fraction of a second.

PYTHON ?= python3
RUN = @command -v $(PYTHON) >/dev/null 2>&1 || { \
	echo "Set-up stopped: there is no program $(PYTHON). Install Python 3.11 or newer, or add PYTHON=/path/to/python." >&2; exit 2; }; \
	exec $(PYTHON) tools/bootstrap.py

.DEFAULT_GOAL := help
.PHONY: help help-all setup lab check list next watch update test test-all test-times bench bench-course notebooks site lint lock doctor deps-extra deps-engines deps-class cuda executorch matrix image lab-extension wheel clean

help:
	@echo "make TARGET, where TARGET is"
	@awk -F ':.*## ' '/^[a-z-]+:.*## [^.]/ { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "make help-all lists the authors' targets, too."

help-all:
	@awk -F ':.*## [.]?' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

lab: ## open JupyterLab (resumes your last session); CH=05 opens a lesson
	$(RUN) --quiet -- -m oplab.jupyter.start $(if $(CH),--chapter=$(CH)) $(LAB_ARGS)

check: ## grade your exercises: all, or EX=c04, or EX=c04.asinh
	$(RUN) --quiet -- -m oplab.cli check $(EX)

list: ## chapters, exercises, points and what is done
	$(RUN) --quiet -- -m oplab.cli list

next: ## the next exercise
	$(RUN) --quiet -- -m oplab.cli next

watch: ## grade again whenever you save an exercise
	$(RUN) --quiet -- -m oplab.cli watch

update: ## new lessons and stubs; what you wrote is kept
	$(RUN) --quiet -- -m oplab.cli update

setup: ## only the set-up: environment, packages, headers, operators
	$(RUN)

doctor: ## versions, compiler, headers, and what is missing
	$(RUN) --as-is -- -m oplab.doctor

deps-extra: ## .torch_cluster, compiled (9 minutes): some tests compare with it
	$(RUN) --quiet -- tools/deps_extra.py

deps-engines: ## .OpenVINO and ncnn (100 MB): for `oplab parity --backends openvino,ncnn`
	$(RUN) --quiet -- tools/deps_engines.py

deps-class: ## .Dask (10 MB): for `oplab class grade --cluster`
	$(RUN) --quiet -- tools/deps_class.py

cuda: ## .csrc/cuda with NVIDIA's compiler, which is installed in build/ (115 MB)
	$(RUN) --quiet -- tools/build_cuda.py

executorch: ## .a network with MyAdd in ExecuTorch (19 MB in build/)
	$(RUN) --quiet -- tools/run_executorch.py

matrix: ## .the answers with several versions of PyTorch (MATRIX_ARGS="c04 --lessons")
	$(RUN) --quiet -- tools/matrix.py $(MATRIX_ARGS)

image: ## .a container image with the course (docs/images.md)
	docker build --build-arg TORCH_INDEX=$(TORCH_INDEX) --tag operator-lab .

test: ## .what CI runs at each push; TEST_ARGS=c05, =tests/debug, =--failed choose
	$(RUN) --quiet -- tools/run_tests.py $(TEST_ARGS)

test-all: ## .every test, on inputs that are drawn anew: at night, before a release
	$(RUN) --quiet -- tools/run_tests.py --all $(TEST_ARGS)

test-times: ## .the twenty modules of tests that took longest in the last run
	$(RUN) --quiet -- tools/test_times.py

bench: ## .the kernels and their peers (BENCH_ARGS="--only KNN"; docs/benchmarks.md)
	$(RUN) --quiet -- -m benchmarks.kernels $(BENCH_ARGS)

bench-course: ## .the grader and its peers, and the set-up (BENCH_ARGS="--only setup")
	$(RUN) --quiet -- -m benchmarks.suite $(BENCH_ARGS)

notebooks: ## .notebooks/src/*.py to executed notebooks (CH=04 for one chapter)
	$(RUN) --quiet -- tools/notebooks.py $(CH)

lab-extension: ## .labextension/ to the panel of JupyterLab in oplab/jupyter (needs npm)
	$(RUN) --quiet -- tools/build_labextension.py
	$(RUN) --quiet # JupyterLab reads a copy of it in .venv

site: ## .the course as a website in build/site
	$(RUN) --quiet -- tools/site.py

wheel: ## .the package in build/dist, as a wheel and as a source distribution
	$(RUN) --quiet -- -m hatchling build -d build/dist

lint: ## .the code's style
	$(RUN) --quiet -- tools/run_tests.py lint

lock: ## .write requirements.lock from pyproject.toml
	$(RUN) --quiet -- tools/lock.py

clean: ## .remove what was built; never backups, progress or copies of lessons
	@if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name backup ! -name 'progress.json*' ! -name 'update*' -exec rm -rf {} +; fi
	@echo "build/ is clean; .venv/ stays (remove it by hand to set up from the start)."
