# A thin front for meson: everything here can be done by hand. `make up` and `make check` set up what they need.
BUILD ?= build
PYTEST = /usr/bin/python3 -m pytest -q -p no:cacheprovider
export STOCKADE ?= $(CURDIR)/$(BUILD)/src/cli/stockade

.PHONY: up down deb build check check-all check-v2 check-matrix check-microvm check-clang check-sanitize fuzz soak soak-api bench bench-gate bench-operator bench-api bench-drivers bench-web format clean install

# The demonstration, and then the daemon in the background, on ./.stockade, with its web app on this machine alone: the
# link that it prints signs you in. `make down` ends it. make up [PORT=7070]: where, the first time
up: build
	tools/demo
	@mkdir -p .stockade
	@test -z '$(PORT)' || test -f .stockade/stockade.conf || echo 'listen = 127.0.0.1:$(PORT)' >.stockade/stockade.conf
	@$(STOCKADE) up --detach --state .stockade
	@echo "  (here: PATH=$(dir $(STOCKADE)):\$$PATH; 'make down' ends it)"

down:
	@$(STOCKADE) down --stop-sandboxes --socket .stockade/run/operator.sock

build:
	tools/deps build
	tools/web
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) >/dev/null
	ninja -C $(BUILD)

check:
	tools/check

check-all:
	tools/check-all

# The end-to-end suites on Debian 12's own kernel with cgroup v2 alone, in a virtual machine.
check-v2: build
	tools/deps check-all
	tests/vm/check

# The judge on virtual machines, all of it: long where they are emulated.
check-microvm: build
	tools/deps check-all
	STOCKADE_LONG=1 /usr/bin/python3 -m pytest -q tests/driver/test_verify_driver.py -k "microvm or firecracker"

# Layers × checks, all of it: writes docs/knock-out.md. The thinned one is a step of check-all.
check-matrix: build
	@test -f build-knockout/build.ninja || meson setup build-knockout -Dknockout=true >/dev/null
	ninja -C build-knockout
	tests/matrix/matrix.py --page docs/knock-out.md

# make fuzz T=profile [SECONDS=600]
fuzz:
	SECONDS_TO_RUN=$(or $(SECONDS),60) tools/fuzz $(T)

# Creates and destroys sandboxes and kills our own processes at random; nothing may grow. make soak [N=10000] [SEED=1]
soak: build
	tests/soak/soak -n $(or $(N),10000) $(if $(SEED),--seed $(SEED))
	tests/model/lifecycle --ops $(or $(OPS),100000) --kills $(or $(KILLS),1000) $(if $(SEED),--seed $(SEED))

# A day of requests to the API; nothing may grow. make soak-api [N=86400] [SEED=1]
soak-api: build
	tests/soak/api -n $(or $(N),86400) $(if $(SEED),--seed $(SEED))

bench: build
	bench/run

bench-gate: build
	tools/deps bench
	bench/run-gate

# What sandboxes that live cost, beside Docker and runc. make bench-operator [ARGS="--rounds 40 --only create,exec"]
bench-operator: build
	tools/deps bench
	bench/operator --json $(BUILD)/bench/operator.json $(ARGS)

# What the API costs, beside libmicrohttpd alone, the local socket and sendfile. make bench-api [ROUNDS=3]
bench-api: build
	tools/deps bench
	bench/api $(if $(ROUNDS),--rounds $(ROUNDS))

# What each driver costs, beside the bare tools. make bench-drivers [ARGS="--rounds 20 --drivers native,gvisor"]
bench-drivers: build
	tools/deps check-all
	bench/drivers --json $(BUILD)/bench/drivers.json --picture $(BUILD)/bench/drivers.svg $(ARGS)

# From the link to a prompt in a real browser, and how much JavaScript is shipped. make bench-web [ROUNDS=5]
bench-web: build
	bench/web $(if $(ROUNDS),--rounds $(ROUNDS))

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

install: build
	meson install -C $(BUILD)

# stockade_VERSION_ARCH.deb, for Debian 12
deb:
	tools/deps deb
	tools/deb

clean:
	rm -rf $(BUILD) build-clang build-sanitize build-fuzz build-knockout build-deb
