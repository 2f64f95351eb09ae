# Needs Go and make; `race` also needs a C compiler.
GO          ?= go
FUZZTIME    ?= 10s
# Without it, inputs are mutated blindly, but packages need not be compiled again.
FUZZFLAGS   ?= -fuzz .
HOSTILE     ?= 100000
FAULTS      ?= 1000
GATE_DRAWS  ?= 1000
PYTHON      ?= python3
# For a release: make build VERSION=v1.2.3
VERSION     ?=
STAMPED      = $(or $(VERSION),$(shell git describe --tags --always --dirty 2>/dev/null),devel)
# make run DATA=… LISTEN=…
DATA         = data
LISTEN       = 127.0.0.1:8080
# make release PLATFORMS=linux/amd64
PLATFORMS    = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# make ha HA_MINUTES=2 HA_SEED=7 HA_SEEDS=3
HA_MINUTES  ?= 10
HA_SEED     ?=
HA_SEEDS    ?= 1
HA_TAGS     ?=
RAPIDOC     := 9.3.8
GOSEC       := github.com/securego/gosec/v2/cmd/gosec@v2.22.4
# Excluded everywhere: conversions of integers (G115: lengths and sequence numbers are far
# below 2^63, and input is bounded where it is parsed), files named by variables (G304:
# operators name their own files), and ignored errors (G104: vet and staticcheck check
# them). G601 is about loop variables before Go 1.22, and starts the go command for each
# range statement, which takes ten minutes. Every other exception gives its reason in place.
GOSECFLAGS  := -quiet -exclude=G115,G304,G104,G601 -exclude-dir=deploy/release -exclude-dir=deploy/manifests -exclude-dir=bench -exclude-dir=e2e/interop -exclude-dir=e2e/otlp -exclude-dir=e2e/ha

export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help
.PHONY: help run build test race fuzz hostile faults ha drill gate manifests lint security bench growth e2e interop otlp rapidoc console release

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Build the command and serve ./data on 127.0.0.1:8080 (or DATA and LISTEN)
	./bin/colophon serve --data '$(DATA)' --listen '$(LISTEN)'

build: ## Build bin/colophon
	$(GO) build -trimpath -ldflags '-X main.version=$(STAMPED)' -o bin/colophon ./cmd/colophon

test: ## Run all tests
	$(GO) test -timeout 20m ./...

race: export CGO_ENABLED = 1
race: ## Run all tests with the race detector (needs a C compiler)
	$(GO) test -race ./...

fuzz: ## Run every fuzz target for FUZZTIME (default 10s; or a number of inputs, such as 5000x)
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT; \
	listed=$$($(GO) test -list '^Fuzz' $$(grep -rl --include='*_test.go' '^func Fuzz' --exclude-dir=bench --exclude-dir=e2e --exclude-dir=release . | xargs -n 1 dirname | sort -u)) || { echo "$$listed"; exit 1; }; \
	echo "$$listed" | awk '/^Fuzz/ {targets = targets " " $$1} /^ok/ {if (targets != "") print $$2 targets; targets = ""}' | \
	while read -r package targets; do \
		$(GO) test -c $(FUZZFLAGS) -o "$$scratch/fuzz" "$$package" || exit 1; \
		for target in $$targets; do \
			echo "$$package $$target"; \
			(cd "$$($(GO) list -f '{{.Dir}}' "$$package")" && "$$scratch/fuzz" -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime '$(FUZZTIME)' \
				-test.fuzzminimizetime 10x -test.fuzzcachedir "$$($(GO) env GOCACHE)/fuzz/$$package" </dev/null) || exit 1; \
		done; \
	done

hostile: ## Attack a server with HOSTILE requests drawn from the contract (100000), without and with tokens, and alongside 500 slow readers
	COLOPHON_HOSTILE='$(HOSTILE)' $(GO) test -count=1 -timeout 2h -v ./api/hostile

faults: ## Inject FAULTS faults of each kind (default 1000, which takes an hour); FAULTS_SEED repeats an earlier run
	FAULTS='$(FAULTS)' $(GO) test -count=1 -timeout 6h -v ./e2e/faults

ha: ## Inject faults into three servers on Patroni for HA_MINUTES (default 10), with HA_SEEDS seeds from HA_SEED on
	$(GO) -C e2e/ha vet .
	HA_MINUTES='$(HA_MINUTES)' HA_SEED='$(HA_SEED)' HA_SEEDS='$(HA_SEEDS)' HA_TAGS='$(HA_TAGS)' $(GO) -C e2e/ha test -count=1 -timeout 6h -v .

drill: ## Replace three servers one by one while clients write; FROM=COMMIT builds the old servers of that commit
	DRILL_FROM='$(FROM)' $(GO) test -count=1 -timeout 15m -v ./e2e/upgrade

gate: ## Count the false alarms and the misses of drift gate in GATE_DRAWS draws of each kind (default 1000; needs the real input)
	COLOPHON_GATE_DRAWS='$(GATE_DRAWS)' $(GO) test -count=1 -timeout 1h -v -run 'Draws' ./internal/gate

lint: ## Check formatting, and run go vet and staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt these files:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

security: ## Run gosec
	$(GO) run $(GOSEC) $(GOSECFLAGS) ./...

bench: ## Compare speed with Tessera and immudb (10 minutes; flags in BENCH, such as BENCH=--quick)
	$(GO) -C bench run . run $(BENCH)

growth: ## Fill one ledger under 1 GiB of memory (flags in BENCH, such as BENCH='--records 10000000')
	$(GO) -C bench run . growth $(BENCH)

e2e: ## Run the command's scripts and a real Prometheus, also on the real input if it is available
	$(GO) test -count=1 -run '^TestScripts$$' ./cmd/colophon
	$(GO) test -count=1 ./deploy

manifests: ## Load the compose files, lint the Helm chart, and compare it and the manifests with Kubernetes and the server
	$(GO) -C deploy/manifests vet ./...
	$(GO) -C deploy/manifests test -count=1 ./...

interop: ## Mirror, check, and watch a server with other people's tools (Node 18, OpenSSL, and curl, if installed)
	@if command -v npm >/dev/null; then cd e2e/interop/node && npm ci --silent --ignore-scripts --no-audit --no-fund; fi
	$(GO) -C e2e/interop vet ./...
	$(GO) -C e2e/interop test -count=1 -timeout 15m ./...

otlp: ## Send generations with the exporters of OpenTelemetry's Collector and SDKs for Go and, if installed, JavaScript (Node 18)
	@if command -v npm >/dev/null; then cd e2e/otlp/node && npm ci --silent --ignore-scripts --no-audit --no-fund; fi
	$(GO) -C e2e/otlp/collector vet .
	$(GO) -C e2e/otlp vet ./...
	$(GO) -C e2e/otlp test -count=1 -timeout 15m ./...

.PHONY: clients
clients: build ## Build, lint, and test the clients in clients/, and build the script of the audit pack's page (Node 20)
	cd clients/typescript && npm ci --silent --ignore-scripts --no-audit --no-fund && npm run --silent all

.PHONY: python
python: build ## Test the Python client in clients/python (Python 3.10 or later, with pip and venv)
	cd clients/python && PYTHONPATH=src PYTHONDONTWRITEBYTECODE=1 COLOPHON_BINARY='$(CURDIR)/bin/colophon' $(PYTHON) -m unittest discover -t . -s tests

rapidoc: ## Update RapiDoc, which renders /docs, from npm (RAPIDOC is its version)
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT; \
	npm pack --silent --pack-destination "$$scratch" rapidoc@$(RAPIDOC) && tar xzf "$$scratch/rapidoc-$(RAPIDOC).tgz" -C "$$scratch" && \
	cp "$$scratch/package/LICENSE.txt" "$$scratch/package/dist/rapidoc-min.js" "$$scratch/package/dist/rapidoc-min.js.LICENSE.txt" api/reference/rapidoc

console: ## Check and rebuild the web page in console/dist (needs Node 20; Go needs only the result)
	cd console && npm ci --silent --ignore-scripts --no-audit --no-fund && npm run --silent all

.PHONY: e2e-console console-pictures
e2e-console: build ## Drive the web page in Chromium, on the real input if it is available (needs Node 20)
	cd e2e/console && npm ci --silent --ignore-scripts --no-audit --no-fund && npm run --silent test

console-pictures: build ## Take the pictures of the web page in docs/console (needs Chromium and Node 20)
	cd e2e/console && npm ci --silent --ignore-scripts --no-audit --no-fund && npm run --silent pictures

release: export CGO_ENABLED = 0
release: ## Build dist/: static binaries for all PLATFORMS, a bill of materials for each, and checksums
	rm -rf dist && mkdir dist
	@set -e; for platform in $(PLATFORMS); do \
		os=$${platform%/*} arch=$${platform#*/}; binary=dist/colophon-$$os-$$arch; \
		if [ $$os = windows ]; then binary=$$binary.exe; fi; \
		echo "$$binary"; \
		GOOS=$$os GOARCH=$$arch GOAMD64=v1 GOARM64=v8.0 GOFLAGS= $(GO) build -trimpath -buildvcs=false \
			-ldflags '-s -w -buildid= -X main.version=$(STAMPED)' -o "$$binary" ./cmd/colophon; \
		$(GO) -C deploy/release run . "$(CURDIR)/$$binary" '$(STAMPED)' > "$$binary.cdx.json"; \
	done
	cd dist && sha256sum -- * > SHA256SUMS
