# Every habit is a target; "make" lists them.

SHELL         := /bin/bash
.SHELLFLAGS   := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS     += --no-print-directory

VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo development)
STAMP       := -X github.com/coracle-eks/coracle/internal/version.stamped=$(VERSION)
# What "make check" runs, built by Go from its modules, once.
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
MISSPELL    := github.com/golangci/misspell/cmd/misspell@v0.8.0
VALE        := github.com/vale-cli/vale/v3/cmd/vale@v3.22.0
HUGO        := github.com/gohugoio/hugo@v0.160.0
# The Kubernetes version that clusters get by default.
DEFAULT     := $(shell sed -n 's/^const Default = "\(.*\)"/\1/p' kubernetes/versions.go)
# The Kubernetes versions that the tests start; "make bundles" builds all.
TESTED      := 1.35 1.36
# The add-ons whose components the tests run; "make addons" builds those of all.
TESTED_ADDONS := metrics-server vpc-cni@v1.23.1-eksbuild.1
# How the tests, and the daemon that they run, are built.
TESTBUILD   := -tags crashpoints
# How many packages "make test" tests at the same time in each of its two lanes, which together have the cores.
PACKAGES    := $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) + 1) / 2 )))
# How long each fuzz target runs, and which do: all, unless FUZZ says otherwise.
FUZZTIME ?= 10m
FUZZ     ?= .
# Where the clients of the tests are looked for first, and put by "make setup".
export PATH := $(CURDIR)/bin/tools:$(PATH)
# One setting for the daemon, what runs on nodes, the tools and the tests, so that they share what is compiled; without
# the directory in it, other clones share it, too. Debugging information takes time, and nothing here reads it; so does
# inlining in code that nobody waits for. CompilerFlags of internal/upstream are the same.
OWN         := github.com/coracle-eks/coracle/internal
NOT_INLINED := github.com/aws/aws-sdk-go-v2/service $(addprefix k8s.io/client-go/,applyconfigurations informers \
	kubernetes listers) $(addprefix k8s.io/kubernetes/pkg/,apis generated) $(addprefix $(OWN)/aws/,acm autoscaling \
	cloudformation ec2 ecr efs eks elb kms ssm) $(OWN)/controller
COMPILER    := -trimpath -gcflags=all=-dwarf=false $(foreach p,$(NOT_INLINED),'-gcflags=$(p)/...=-dwarf=false -l')
export CGO_ENABLED := 0
export GOFLAGS := $(COMPILER) $(filter-out $(COMPILER),$(GOFLAGS))
# Compilers that collect garbage less often need less time. The limit is for the largest packages: that of EC2's API
# would take 3 GB.
BUILD       := GOGC=400 GOMEMLIMIT=2GiB go
export CORACLE_BUNDLES ?= $(CURDIR)/bin/bundles
export CORACLE_NODE ?= $(CURDIR)/bin/node

##@ Use

.PHONY: up
up: build ## build, install what this machine lacks, start the daemon in the background, say what to do next
	@scripts/setup --if-possible
	@bin/coracle up

.PHONY: down
down: ## stop the daemon; clusters keep running
	@bin/coracle down

.PHONY: demo
demo: up ## a guided tour: cluster, nodes, pods, access; and an upgrade, once a second version is built
	@bin/coracle demo

.PHONY: build
build: ## build the daemon, the default version of Kubernetes, and what runs on nodes
	@echo "building bin/coracle $(VERSION)"
	@$(BUILD) list -deps ./cmd/coracle >/dev/null 2>&1 & # downloads while Go compiles what builds it
	@$(BUILD) run ./hack/build all --bundles $(CORACLE_BUNDLES) --node $(CORACLE_NODE) --ldflags '$(STAMP)'

.PHONY: daemon
daemon: ## build the daemon alone: bin/coracle
	@echo "building bin/coracle $(VERSION)"
	@$(BUILD) build -ldflags '-s -w $(STAMP)' -o bin/coracle ./cmd/coracle

# The daemon that tests run can be killed at its crash points, which the one of users has not; see internal/crash.
.PHONY: test-daemon
test-daemon:
	@echo "building bin/test/coracle $(VERSION)"
	@$(BUILD) build $(TESTBUILD) -ldflags '-s -w $(STAMP)' -o bin/test/coracle ./cmd/coracle

.PHONY: default-bundle
default-bundle:
	@$(BUILD) run ./hack/build kubernetes -o $(CORACLE_BUNDLES) $(DEFAULT)

.PHONY: node
node: ## build what runs on nodes, and the node image (some minutes, once; downloads 48 MB of Debian packages)
	@$(BUILD) run ./hack/build node -o $(CORACLE_NODE) --ldflags '$(STAMP)'

# What is checked in is what the daemon serves, so that a build needs no Node.
.PHONY: console
console: ## build the console of its sources, into internal/console/dist (takes npm)
	@scripts/setup --only npm
	cd console && npm ci --no-audit --no-fund --ignore-scripts && npm run build

.PHONY: addons
addons: ## build ahead what add-ons run, which a daemon builds when it needs it (ten minutes, once)
	@$(BUILD) run ./hack/build components -o $(CORACLE_NODE)

.PHONY: bundles
bundles: ## build every version of Kubernetes (about four minutes each, once)
	@$(BUILD) run ./hack/build kubernetes -o $(CORACLE_BUNDLES)

##@ Develop

.PHONY: setup
setup: ## install what the tests need and this machine lacks (aws, kubectl, nft, ...)
	@if [ "$$(id -u)" = 0 ]; then scripts/setup nft:nftables chromium; else scripts/setup; fi

.PHONY: goflags
goflags: ## print the flags of the Go command, with which one by hand finds what is compiled
	@echo "$(GOFLAGS)"

.PHONY: test-unit
test-unit: ## run the tests that need Go alone: no root, no network, no setup; also on macOS
	go test -short -vet=off -ldflags=-w ./cmd/... ./hack/... ./internal/... ./kubernetes ./node ./test/facts

.PHONY: test
test: setup daemon test-daemon tested-bundles node tested-addons ## set up, build and run the tests
	@$(MAKE) -k -j 2 test-nodes test-packages
	@if command -v npm >/dev/null; then cd console && npm ci --no-audit --no-fund --ignore-scripts && npm test; fi
	$(TEST) ./test/console
	cd examples/controller && CORACLETEST_PROGRAM=$(CURDIR)/bin/coracle go test ./...

# What has nodes is in a lane of its own, the longest first, lest nodes of several packages wait for each other; some
# without nodes are with it, as the other lane would end later. The browser of test/console comes last: it gives up what
# it has asked for whenever an interface of the host comes or goes. Linked without what debuggers read, in two thirds of
# the time, and not vetted again: "make check" does that.
NODES := $(patsubst %,./test/%,nodegroup addon eksctl nodes demo container chaos efs facts faults volumes logs simulated)
TEST  := GOGC=400 CORACLE_TEST_BUILT=$(CURDIR) go test $(TESTBUILD) -vet=off -ldflags=-w -p $(PACKAGES) -timeout 60m
.PHONY: test-nodes test-packages
test-nodes:
	$(TEST) $(NODES)
test-packages:
	$(TEST) $$(go list ./... | grep -v -x -F "$$(go list $(NODES) ./test/console)")

.PHONY: test-all
test-all: setup daemon test-daemon bundles node addons tested-addons ## all tests with every version of Kubernetes and the race detector, and each fuzz target for FUZZTIME
	@scripts/setup debootstrap systemd-nspawn:systemd-container curl dig:bind9-dnsutils nc.openbsd:netcat-openbsd
	CGO_ENABLED=1 CORACLE_TEST=all CORACLE_TEST_BUILT=$(CURDIR) go test $(TESTBUILD) -race -timeout 120m ./...
	@scripts/fuzz $(FUZZTIME)

# CORACLE_CONFORMANCE names the versions, and CORACLE_CONFORMANCE_FOCUS a part of the tests.
.PHONY: conformance
conformance: setup test-daemon bundles node ## run the certified conformance tests of Kubernetes (hours for each version); reports in bin/conformance
	@scripts/setup curl dig:bind9-dnsutils nc.openbsd:netcat-openbsd
	CORACLE_CONFORMANCE="$${CORACLE_CONFORMANCE:-all}" CORACLE_TEST_BUILT=$(CURDIR) go test $(TESTBUILD) -vet=off \
		-timeout 48h -v -run TestConformance ./test/conformance

.PHONY: fuzz
fuzz: ## fuzz what reads untrusted bytes, each target for FUZZTIME (10m); FUZZ='aws/wire' selects some
	@scripts/fuzz $(FUZZTIME) '$(FUZZ)'

.PHONY: tested-bundles
tested-bundles:
	@$(BUILD) run ./hack/build kubernetes -o $(CORACLE_BUNDLES) $(TESTED)

.PHONY: tested-addons
tested-addons:
	@$(BUILD) run ./hack/build components -o $(CORACLE_NODE) $(TESTED_ADDONS)

.PHONY: bench
bench: setup daemon tested-bundles node ## measure what the documentation claims (the first time makes a million audit events)
	@scripts/setup jq zstd runc iptables conntrack
	go test -run '^$$' -bench . -benchtime 1x -p 1 -timeout 90m ./test/bench ./test/simulated
	go test -run '^$$' -bench PodToPod -benchtime 5x ./internal/host/network
	go test -run '^$$' -bench 'Decision|WebIdentity' ./internal/aws/iam/identity ./internal/aws/sts

.PHONY: check
check: ## format, vet, lint, spelling, Markdown, checksums of modules, and who may import whom
	@unformatted=$$(gofmt -l cmd coracletest examples hack internal kubernetes/*.go test); \
		if [ -n "$$unformatted" ]; then echo "gofmt -w these:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go vet $(TESTBUILD) ./...
	cd examples/controller && go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	@$(MAKE) lint lint-docs check-console
	go mod verify
	go test ./internal/importrules

# The linters need some 4 GiB of memory. Their build, with the tag of tests, differs in internal/crash alone.
.PHONY: lint
lint: ## run golangci-lint (.golangci.yml says which linters)
	GOMEMLIMIT=4GiB go run $(GOLANGCI) run $(TESTBUILD:-tags=--build-tags) ./...
	go run $(GOLANGCI) run ./internal/crash

# Vale parses code with C libraries, which we do not use but have to build.
.PHONY: lint-docs
lint-docs: ## check the spelling and the structure of the documentation
	@git ls-files -z -- ':!*.go' ':!*.sum' ':!**/testdata/**' ':!internal/console/dist' ':!console/package-lock.json' | \
		xargs -0 go run $(MISSPELL) -locale US -error -i cancelled,harbour
	@git ls-files -z -- '*.md' ':!**/testdata/**' | \
		CGO_ENABLED=1 xargs -0 go run $(VALE) --config hack/vale/vale.ini --output line
	@git ls-files -z -- '*.md' ':!.github/**' ':!**/testdata/**' | xargs -0 go run ./hack/markdown

# The lint rules and the types of the console, and whether what is checked in is what its sources make.
.PHONY: check-console
check-console: ## lint the console, and compare what is checked in with a build of its sources (takes npm)
	@scripts/setup --only npm
	cd console && npm ci --no-audit --no-fund --ignore-scripts && npm run lint
	@built=$$(mktemp -d) && trap 'rm -rf "$$built"' EXIT && cd console && CONSOLE_OUT=$$built npm run build && \
		diff -r "$$built" ../internal/console/dist || \
		{ echo "internal/console/dist is not what console makes: run \"make console\""; exit 1; }

.PHONY: vulnerabilities
vulnerabilities: ## look for known vulnerabilities in what every module calls (needs the network)
	@scripts/vulnerabilities

.PHONY: docs
docs: ## write docs/operations.md from the code
	@go run ./cmd/coracle operations > docs/operations.md

.PHONY: site
site: ## make the documentation a static site, in bin/site
	go run $(HUGO) --noBuildLock --source hack/site --destination $(CURDIR)/bin/site --cleanDestinationDir --panicOnWarning

# The processors of the machines that archives are for.
DIST_ARCHS ?= amd64 arm64

.PHONY: dist
dist: ## make archives for users who build nothing, in dist: coracle, the default version of Kubernetes, what runs on nodes
	@for arch in $(DIST_ARCHS); do go run ./hack/dist --arch $$arch --version $(VERSION) -o dist $(DEFAULT); done

.PHONY: clean
clean: ## remove what was built; data directories stay ("coracle reset" removes those)
	rm -rf bin dist

.PHONY: help
help:
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile
