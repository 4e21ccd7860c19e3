# The front door. `make verify` and `make test` do all their own set-up and are quick when nothing is to do.
.DEFAULT_GOAL := help
BUILD ?= build
CAMPAIGN ?= campaigns/utils-checkpoint.yaml
VERSIONS ?=
# Releases that `make test` makes environments for.
TEST_RELEASES ?= 2.7.1 2.12.0 2.13.0
CONCORD = $(BUILD)/bin/concord
JOBS ?= $(shell nproc)

help:
	@echo 'make verify [VERSIONS=2.12.0,...]  build everything, make the environments, run the reference campaign'
	@echo 'make test                          unit tests, device tests and one end-to-end run'
	@echo 'make build                         build only'
	@echo 'make test-unit                     unit tests only (seconds)'
	@echo 'make test-runner                   suites of misbehaving tests, 200 kills, a Slurm cluster (minutes)'
	@echo 'make test-sanitize                 unit tests under ASan+UBSan, device and runner also under TSan'
	@echo 'make test-cross                    aarch64 cross build, its unit tests under qemu-user'
	@echo 'make stress                        the device under many threads, streams and processes (STRESS_SECONDS, 600)'
	@echo 'make test-plugin TREE=... RELEASE=2.12.0   torch_npu'"'"'s own runtime tests'
	@echo 'make test-page                     the report in headless Chromium, with pictures'
	@echo 'make bench                         ratios to CPU torch and other peers'
	@echo 'make bench-runner                  concord test against pytest-forked and pytest-xdist, 10,000 tests'
	@echo 'make bench-operators               kernels against CPU torch, by operator, type and size'
	@echo 'make fuzz                          every fuzz target for FUZZ_SECONDS (60) each'
	@echo 'make check-style                   clang-format, clang-tidy and ruff'
	@echo 'make docs                          regenerate docs/operators.md from the operator rows'

setup:
	@scripts/setup.sh build

configure: setup
	@test -f $(BUILD)/build.ninja || cmake -G Ninja -S . -B $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 2; }

build: programs
	@ninja -C $(BUILD) -j $(JOBS) --quiet

# What a user needs, without the tests.
programs: configure
	@test -x $(CONCORD) || echo 'build: compiling for the first time: a minute or two'
	@ninja -C $(BUILD) -j $(JOBS) --quiet concord/all softnpu/all

verify: programs
	@$(CONCORD) verify $(CAMPAIGN) $(if $(VERSIONS),--versions $(VERSIONS))

test: build
	@scripts/test.sh $(BUILD) $(TEST_RELEASES)

test-unit: build
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

test-sanitize: setup
	@scripts/sanitize.sh

test-runner: build
	@scripts/runner.sh $(BUILD)

test-cross:
	@scripts/setup.sh build cross
	@scripts/cross.sh

test-conformance: build
	@scripts/conformance.sh $(BUILD)

stress: build
	@ninja -C $(BUILD) --quiet stress
	@$(BUILD)/bin/stress $(or $(STRESS_SECONDS),600)

# torch_npu's own runtime tests: TREE is a checkout of its repository at the release's commit.
test-plugin: build
	@scripts/plugin_tests.py $(BUILD) $(TREE) $(or $(RELEASE),2.12.0) --out $(or $(OUT),$(BUILD)/plugin-$(or $(RELEASE),2.12.0).tsv) --resume

# The report's page in headless Chromium; pictures to look at are left in BUILD/pictures.
test-page: build
	@scripts/setup.sh build browser
	@ninja -C $(BUILD) --quiet bench_report
	@scripts/page_tests.sh $(BUILD)

bench: build
	@ninja -C $(BUILD) --quiet bench_launch bench_runtime bench_report
	@scripts/bench.sh $(BUILD)

bench-runner: programs
	@python3 bench/runner.py $(CONCORD)

bench-operators: build
	@scripts/bench.sh $(BUILD) operators

fuzz:
	@scripts/setup.sh build check
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),60)

check-style: build
	@scripts/setup.sh build check
	@scripts/style.sh $(BUILD)

docs: build
	@scripts/docs.sh $(BUILD)

clean:
	rm -rf build build-* build*.log

.PHONY: test-page stress test-plugin test-conformance help setup configure programs build verify test test-unit test-sanitize test-cross bench bench-operators fuzz check-style docs clean
