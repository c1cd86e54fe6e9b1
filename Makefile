# SPDX-License-Identifier: Apache-2.0
#
# make build   the binary, ./firn
# make check   formatting, vet, staticcheck, unit tests; no network, no other program
# make test    check and the integration tests, with real clients and a real S3 server
# make race    the unit tests under the race detector
# make fuzz    every fuzz target for FUZZTIME each
# make soak    the kill -9 tests, SOAK_COUNT times over
# make bench   the benchmarks of all packages, BENCH for some
# make demo    what replays do to the tail, and what they do without tiers; ARGS="--bytes 512MiB" for less
# make tools   the programs that the integration tests need

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

GO ?= go
BIN := .cache/bin
KAFKAJS := .cache/kafkajs
KAFKA := .cache/kafka
SUMMARY := $(BIN)/testsummary

VERSITYGW_VERSION := v1.8.0
KAFKA_POM := integration/testdata/kafka/pom.xml
MAVEN_COPY := org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
FUZZTIME ?= 10s
SOAK_COUNT ?= 20
BENCH ?= .
ARGS ?=
# What fuzz and bench look at.
PKGS ?= ./...

UNIT := -timeout 5m ./...
# The packages that have integration tests, one at a time: they share the
# machine with the servers they start.
INTEGRATION = -tags integration -p 1 -count 1 -timeout 12m $(shell grep -rl --include='*_test.go' '^//go:build integration' . | xargs -r -n1 dirname | sort -u)

.PHONY: build
build:
	$(GO) build -trimpath -o firn ./cmd/firn

.PHONY: check
check: static $(SUMMARY)
	$(SUMMARY) $(UNIT)

.PHONY: test
test: static tools $(SUMMARY)
	$(SUMMARY) $(UNIT) -- $(INTEGRATION)

# With the integration tag everything is seen, what has none as well.
.PHONY: static
static:
	@unformatted="$$(gofmt -l .)"; if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet -tags integration ./...
	$(GO) tool staticcheck -tags integration ./...

.PHONY: race
race: $(SUMMARY)
	$(SUMMARY) -race -timeout 10m ./...

.PHONY: fuzz
fuzz:
	@found=0; \
	for pkg in $$($(GO) list $(PKGS)); do \
		listed="$$($(GO) test -list '^Fuzz' $$pkg)"; \
		for target in $$(grep '^Fuzz' <<<"$$listed" || true); do \
			found=$$((found + 1)); \
			echo "=== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done; \
	if [ $$found -eq 0 ]; then echo "no fuzz target was found"; exit 1; fi; \
	echo "$$found fuzz targets held"

.PHONY: soak
soak: tools $(SUMMARY)
	$(SUMMARY) -tags integration -p 1 -count $(SOAK_COUNT) -timeout 0 -run Kill ./integration/...

.PHONY: bench
bench:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKGS)

.PHONY: demo
demo:
	$(GO) run ./cmd/firn demo $(ARGS)

# Installed where the tests look: TEST_VERSITYGW, TEST_KCAT, TEST_NODE and
# TEST_JAVA, $(BIN), PATH; KafkaJS in $(KAFKAJS), Kafka's programs in $(KAFKA).
.PHONY: tools
tools:
	@if [ -z "$${TEST_VERSITYGW:-}" ] && [ ! -x $(BIN)/versitygw ] && ! command -v versitygw >/dev/null; then \
		echo "installing versitygw $(VERSITYGW_VERSION); the first time takes some minutes"; \
		GOBIN="$(CURDIR)/$(BIN)" $(GO) install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION); \
	fi
	@missing=""; \
	if [ -z "$${TEST_KCAT:-}" ] && [ ! -x $(BIN)/kcat ] && ! command -v kcat >/dev/null; then missing="kcat"; fi; \
	if [ -z "$${TEST_NODE:-}" ] && ! command -v node >/dev/null; then missing="$$missing nodejs"; fi; \
	if ! command -v npm >/dev/null; then missing="$$missing npm"; fi; \
	if [ -z "$${TEST_JAVA:-}" ] && ! command -v java >/dev/null; then missing="$$missing default-jre-headless"; fi; \
	if ! command -v mvn >/dev/null && ! cmp -s $(KAFKA_POM) $(KAFKA)/installed; then missing="$$missing maven"; fi; \
	if [ -n "$$missing" ]; then \
		if ! command -v apt-get >/dev/null; then echo "install $$missing, or set TEST_KCAT, TEST_NODE and TEST_JAVA to their paths"; exit 1; fi; \
		echo "installing $$missing"; \
		if [ "$$(id -u)" -eq 0 ]; then as=; else as=sudo; fi; \
		$$as apt-get update -q; \
		$$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; \
	fi
	@lock=integration/testdata/kafkajs/package-lock.json; \
	if ! cmp -s $$lock $(KAFKAJS)/installed; then \
		echo "installing KafkaJS"; \
		rm -rf $(KAFKAJS); mkdir -p $(KAFKAJS); \
		cp integration/testdata/kafkajs/package.json $$lock $(KAFKAJS)/; \
		npm ci --prefix $(KAFKAJS) --ignore-scripts --no-audit --no-fund; \
		cp $$lock $(KAFKAJS)/installed; \
	fi

	@if ! cmp -s $(KAFKA_POM) $(KAFKA)/installed; then \
		echo "installing Apache Kafka"; \
		rm -rf $(KAFKA); mkdir -p $(KAFKA); \
		mvn -B -q -f $(KAFKA_POM) $(MAVEN_COPY) -DincludeScope=runtime -DoutputDirectory="$(CURDIR)/$(KAFKA)/libs"; \
		cp $(KAFKA_POM) $(KAFKA)/installed; \
	fi

# Always asked for: the go command knows whether it is up to date.
.PHONY: $(SUMMARY)
$(SUMMARY):
	@$(GO) build -o $@ ./cmd/testsummary
