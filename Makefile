# Lathe's build. `make help` lists what there is.

# One instruction-set level for every binary: from v3 on the compiler fuses
# multiplications and additions of its own accord, and the bytes of a run
# would depend on who built it.
export GOAMD64 := v1
# The same flags for whatever make builds, tests and checks, so that nothing is
# compiled twice. Names are looked up without the C library, with cgo too.
# Manual pages of the command-line library, which nothing prints, would take a twentieth
# of a process's start.
export GOFLAGS := $(shell go env GOFLAGS) -trimpath -tags=netgo,osusergo,urfave_cli_no_docs
# go-nvml binds every call of the library, deprecated ones too.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations

VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unversioned)
LDFLAGS := -s -w -X github.com/lathe-rl/lathe/pkg/command/cmdline.Version=$(VERSION)
# Those that load the CUDA engine need cgo for it, and do without where no C
# compiler is.
BINARIES := lathe lathe-score lathe-buffer
ENGINE_BINARIES := lathe-rollout lathe-learn
CHAOS_KILLS ?= 200

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT := mvdan.cc/gofumpt@v0.12.0
# go test, which also names the tests that skip, and fails for those that
# .ci/skips.txt does not list and for what tests leave in the temporary folder;
# make check vets.
# Linked by Go's own linker, also those with cgo: in three quarters of the time.
GOTEST := go run ./pkg/floors/gotest -- -vet=off -ldflags=-linkmode=internal
GREMLINS := github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
DEADCODE := golang.org/x/tools/cmd/deadcode@v0.52.0

.DEFAULT_GOAL := help

##@ Use
.PHONY: help build cuda quickstart real ladder reproduce-mini
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the binaries into bin/
	CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(BINARIES))
	@if command -v $${CC:-cc} >/dev/null; then set -x; \
		CGO_ENABLED=1 go build -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(ENGINE_BINARIES)) && \
		go build -ldflags '$(LDFLAGS) -extldflags=-Wl,-z,lazy' -o bin/ ./cmd/lathe-monitor; \
	else set -x; CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(ENGINE_BINARIES) lathe-monitor) && \
		echo 'build: left out: GPUs in lathe-monitor, and the CUDA engine in $(ENGINE_BINARIES), need a C compiler (apt-get install gcc libc6-dev)'; fi

cuda: ## build the CUDA engine's library into bin/, where the binaries find it; needs nvcc
	$(MAKE) -C cuda libengine.so
	@mkdir -p bin
	cp cuda/build/liblathe_engine.so bin/

quickstart: build ## train a small policy with ExIt on puzzles on this machine, in minutes
	bin/lathe run jobs/quickstart.yaml --run runs/quickstart

real: export LATHE_MODELS := $(CURDIR)/runs/models
real: export LATHE_SHARED ?= $(abspath ../shared)
real: build ## train a real language model of 135 million weights on word problems, in an hour on two cores; goes on where it stopped
	@[ -r $(LATHE_SHARED)/data/math/svamp/SVAMP.json ] || { echo 'real: the problems are SVAMP.json of arkilpatel/SVAMP (MIT): put it into a folder data/math/svamp and name the folder of data by LATHE_SHARED' >&2; exit 69; }
	jobs/smollm2/import $(LATHE_MODELS)/SmolLM2-135M-Instruct
	bin/lathe run jobs/smollm2/as-is.yaml --run runs/real/as-is
	bin/lathe run jobs/smollm2/grpo.yaml --run runs/real/grpo

ladder: export LATHE_MODELS := $(CURDIR)/runs/models
ladder: export LATHE_SHARED ?= $(abspath ../shared)
ladder: export LATHE_LADDER := $(CURDIR)/runs/ladder
ladder: build ## compare curricula with GRPO on the model of make real, with problems of SVAMP and GSM8K, in hours; goes on where it stopped
	jobs/smollm2/import $(LATHE_MODELS)/SmolLM2-135M-Instruct
	python3 jobs/smollm2/ladder/problems.py $(LATHE_SHARED) $(LATHE_LADDER)/problems
	bin/lathe run jobs/smollm2/ladder/sft.yaml --run $(LATHE_LADDER)/sft
	bin/lathe reproduce analysis/reproduce-ladder.yaml --out $(LATHE_LADDER)/reproduction --parallel 2

REPRODUCED := analysis/results/reproduce-mini
# Of tasks that cannot be made prepare.py says what to install, and lathe whether the
# plan needs them.
reproduce-mini: build ## run the five papers' claims in miniature, in hours, and count the policies that come out the same; goes on where it stopped; makes data/mle's tasks, unless LATHE_DATA names a folder of them
	mkdir -p runs/reproduce-mini-scores
	for scores in $(REPRODUCED)/scores/*.tar.gz; do tar -xzf $$scores -C runs/reproduce-mini-scores || exit; done
	[ -n "$$LATHE_DATA" ] || /usr/bin/python3 data/mle/prepare.py runs/data/mle || true
	LATHE_DATA=$${LATHE_DATA:-$(CURDIR)/runs/data} bin/lathe reproduce analysis/reproduce-mini.yaml --out runs/reproduce-mini --parallel 2 --scores runs/reproduce-mini-scores --against $(REPRODUCED)/reproduction.json

##@ Develop
CHECKS := check-vet check-static check-format check-floors check-cuda check-dead
.PHONY: test test-go test-cuda test-cuda-host test-slurm check $(CHECKS) mutate bench bench-peers gpu-bundle chaos
# The tests on a real Slurm wait more than they compute, so they run beside the others.
test: ## run every test; on Debian, as root, install what they need first
	.ci/packages
	$(MAKE) -j$$(nproc) test-cuda-host
	$(MAKE) -j3 test-cuda test-go test-slurm

test-go: test-cuda-host ## run the tests that need neither a Slurm nor a GPU
	$(GOTEST) -timeout 60m ./...

test-cuda: test-cuda-host ## run the tests of the CUDA kernels, emulated on the CPU
	@if command -v $${HOST_CXX:-g++} >/dev/null; then $(MAKE) -C cuda test; fi

test-cuda-host:
	@if command -v $${HOST_CXX:-g++} >/dev/null; then $(MAKE) -C cuda host; \
	else echo 'test: left out: the CUDA kernels, emulated on the CPU, need g++ (apt-get install g++)'; fi

test-slurm: ## run the tests that need a real Slurm (slurm-wlm and munge)
	@if command -v slurmctld >/dev/null && command -v munged >/dev/null; then \
		LATHE_TEST_SLURM=1 $(GOTEST) -count=1 -timeout 60m -parallel 4 ./pkg/executor/... ./pkg/command/... -run 'Slurm|Real'; \
	else echo "test-slurm: left out: slurmctld or munged is missing (apt-get install slurm-wlm munge)"; fi

# Each part is alone on one core for a time, so they run beside each other.
check: ## vet, staticcheck, gofumpt, floors, the CUDA kernels' registers, dead code
	$(MAKE) -j$$(($$(nproc) + 1)) --output-sync=target $(CHECKS)

check-vet:
	go vet ./...

check-static:
	go run $(STATICCHECK) ./...

check-format:
	@unformatted=$$(go run $(GOFUMPT) -l cmd pkg); if [ -n "$$unformatted" ]; then echo "gofumpt: $$unformatted"; exit 1; fi

check-floors:
	go test ./pkg/floors

check-cuda:
	@if command -v $${NVCC:-nvcc} >/dev/null; then $(MAKE) -C cuda libengine.so resources; \
	else echo 'check: left out: compiling the CUDA engine needs nvcc (apt-get install nvidia-cuda-toolkit, in Debian non-free)'; fi

check-dead:
	@dead=$$(go run $(DEADCODE) -test ./...); if [ -n "$$dead" ]; then echo "$$dead"; exit 1; fi

mutate: ## list the single changes of a package that its own tests do not notice: make mutate PKG=./pkg/scaffold
	go run $(GREMLINS) unleash --workers 1 --output-statuses lt --invert-logical --invert-loopctrl --invert-assignments --remove-self-assignments $(PKG)

bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchtime 200ms ./pkg/...

bench-peers: ## compare training and decoding with PyTorch's: make bench-peers PYTHON=.../bin/python
	@if [ -z "$(PYTHON)" ]; then echo "bench-peers: give PYTHON=, a Python with torch and transformers"; exit 1; fi
	@$(PYTHON) -c 'import torch, transformers' || { echo "bench-peers: $(PYTHON) has no torch or no transformers"; exit 1; }
	LATHE_PEER_PYTHON=$(PYTHON) go test -count=1 -timeout 3h -run TestAgainstPyTorch ./pkg/policy/cpu
	$(PYTHON) analysis/bench_decode.py

gpu-bundle: ## gather what a bare machine with a GPU, nvcc and Python needs to test and measure the CUDA engine
	cuda/gpu-bundle.sh

chaos: build ## kill -9 at CHAOS_KILLS random instants of each of smoke, mle-smoke, own-environment, own-reward and tooluse-smoke runs, resume, compare bytes
	LATHE_CHAOS=$(CHAOS_KILLS) go test -count=1 -v -timeout 0 -run '^(TestChaos|TestProgramsChaos|TestOwnChaos)$$' ./pkg/command
