# `make` alone lists the targets. LAB, FROM and TO reach the lab as environment variables.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# The race detector needs a C compiler.
HAS_CC := $(shell command -v $$(go env CC) 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help build test race lint bench sim demo lab-prepare lab-build lab-up lab-status lab-save lab-load lab-down e2e e2e-list

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo; echo "  SEED, RUNS and FOR choose what sim plays; a broken schedule says how to play it again."
	@echo; echo "  LAB=small (one control plane, one worker) or LAB=ha (three behind haproxy, two workers),"
	@echo "  FROM=v1.35.4 and TO=v1.36.3 choose the lab, CASE=name one case of e2e."

build: ## build the static binary ./kuberung
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o kuberung .

test: ## run the tests that need no cluster
	go test -timeout 10m ./...
ifneq ($(HAS_CC),)
	go test -race -timeout 10m ./engine/... ./hosts/... # quick: they do not link Kubernetes
endif

race: ## run the tests of all packages with the race detector, which needs a C compiler
	go test -race -timeout 20m ./...

lint: ## check formatting, go vet, staticcheck
	@files=$$(gofmt -l .) && test -z "$$files" || { echo "not formatted by gofmt: $$files"; exit 1; }
	go vet ./...
	go tool -modfile=tools/go.mod staticcheck ./...

bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

SEED ?= 1
RUNS ?= 100
FOR  ?= 0

sim: ## upgrade simulated clusters while things go wrong: RUNS schedules from SEED, or for as long as FOR (10m)
	@log=$$(mktemp); go test -timeout 0 -count=1 -run SchedulesOfFaults ./internal/sim -v -args -seed $(SEED) -runs $(RUNS) -for $(FOR) >$$log 2>&1; \
	code=$$?; grep -v -e '^=== ' -e '--- PASS' $$log; rm -f $$log; exit $$code

demo: build ## upgrade a simulated cluster on loopback, in about a minute
	./kuberung demo

lab-prepare: ## install what the lab needs on this machine, if it is missing (Debian, root)
	@lab/prepare

lab-build: lab-prepare ## build Kubernetes FROM and TO (neither: all versions) and all else a lab needs, once, into a cache
	go run ./lab build $(FROM) $(TO)

lab-up: lab-prepare ## bring up a real cluster of version FROM in containers; LAB=small or ha
	go run ./lab up

lab-status: ## show the lab's hosts and nodes
	go run ./lab status

lab-save: ## save the lab's cluster as it is now
	go run ./lab save

lab-load: ## put the saved cluster back, in seconds
	go run ./lab load

lab-down: ## remove all that the lab made, except its cache
	go run ./lab down

e2e: build lab-prepare ## run the real-cluster cases; CASE=climb LAB=small runs one
	go run ./lab e2e $(CASE)

e2e-list: ## list the real-cluster cases
	go run ./lab e2e-list
