# Operator Lab. `make` alone lists what there is. docs/setup.md explains each message of the set-up.
#
# Every target does the set-up that it needs first; what is done already costs a fraction of a second.

PYTHON ?= python3
RUN = @command -v $(PYTHON) >/dev/null 2>&1 || { \
	echo "Set-up stopped: there is no program $(PYTHON). Install Python 3.11 or newer, or add PYTHON=/path/to/python." >&2; exit 2; }; \
	exec $(PYTHON) tools/bootstrap.py

.DEFAULT_GOAL := help
.PHONY: help setup lab check list next watch update test test-all test-times bench bench-course notebooks site lint lock doctor deps-extra deps-engines deps-class cuda executorch matrix image lab-extension wheel clean

help: ## list the targets
	@echo "make TARGET, where TARGET is"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

lab: ## open JupyterLab where you were, or on a lesson: CH=05 (LAB_ARGS="--no-browser --port 9000" goes to JupyterLab)
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

deps-extra: ## torch_cluster, compiled (about 9 minutes): only some tests compare with it
	$(RUN) --quiet -- tools/deps_extra.py

deps-engines: ## OpenVINO and ncnn, with the course's operators (100 MB): for `oplab parity --backends eager,ort,openvino,ncnn`
	$(RUN) --quiet -- tools/deps_engines.py

deps-class: ## Dask (10 MB): for `oplab class grade --cluster` on several machines
	$(RUN) --quiet -- tools/deps_class.py

cuda: ## MyAdd and KNNQuery for GPUs: installs NVIDIA's compiler in build/ (115 MB), and compiles csrc/cuda
	$(RUN) --quiet -- tools/build_cuda.py

executorch: ## a network with MyAdd in ExecuTorch (chapter 18): installs it in build/ (19 MB), compiles a kernel, exports and runs
	$(RUN) --quiet -- tools/run_executorch.py

matrix: ## the reference answers with several versions of PyTorch and ONNX Runtime (MATRIX_ARGS="c04 --only torch=2.13 --lessons")
	$(RUN) --quiet -- tools/matrix.py $(MATRIX_ARGS)

image: ## a container image with the course (TORCH_INDEX=ADDRESS of PyTorch's packages for the CPU; docs/images.md)
	docker build --build-arg TORCH_INDEX=$(TORCH_INDEX) --tag operator-lab .

test: ## what CI runs at each push, in 15 minutes; or TEST_ARGS=c05, TEST_ARGS=tests/debug, TEST_ARGS=--failed
	$(RUN) --quiet -- tools/run_tests.py $(TEST_ARGS)

test-all: ## every test, on inputs that are drawn anew: at night and before a release
	$(RUN) --quiet -- tools/run_tests.py --all $(TEST_ARGS)

test-times: ## the twenty modules of tests that took longest in the last run
	$(RUN) --quiet -- tools/test_times.py

bench: ## measure the kernels beside their peers (BENCH_ARGS="--only KNN", "--quick"; docs/benchmarks.md)
	$(RUN) --quiet -- -m benchmarks.kernels $(BENCH_ARGS)

bench-course: ## measure the grader beside its peers, and the set-up (BENCH_ARGS="--only setup")
	$(RUN) --quiet -- -m benchmarks.suite $(BENCH_ARGS)

notebooks: ## for authors: notebooks/src/*.py to executed notebooks (CH=04 for one chapter)
	$(RUN) --quiet -- tools/notebooks.py $(CH)

lab-extension: ## for authors: labextension/ to the panel of JupyterLab in oplab/jupyter (needs npm)
	$(RUN) --quiet -- tools/build_labextension.py
	$(RUN) --quiet # JupyterLab reads a copy of it in .venv

site: ## the course as a website in build/site, to be read without installing anything
	$(RUN) --quiet -- tools/site.py

wheel: ## for authors: the package in build/dist, as a wheel and as a source distribution
	$(RUN) --quiet -- -m hatchling build -d build/dist

lint: ## for authors: the code's style
	$(RUN) --quiet -- tools/run_tests.py lint

lock: ## for authors: write requirements.lock from pyproject.toml
	$(RUN) --quiet -- tools/lock.py

clean: ## remove what was built; never your backups, your progress or your copies of lessons in work/
	@if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name backup ! -name 'progress.json*' ! -name 'update*' -exec rm -rf {} +; fi
	@echo "build/ is clean; .venv/ stays (remove it by hand to set up from the start)."
