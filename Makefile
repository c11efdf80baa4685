# A thin front for meson: everything here can be done by hand. `make up` and `make check` set up what they need.
BUILD ?= build
PYTEST = /usr/bin/python3 -m pytest -q -p no:cacheprovider
export STOCKADE ?= $(CURDIR)/$(BUILD)/src/cli/stockade

.PHONY: up build check check-all check-v2 check-clang check-sanitize fuzz bench bench-gate format clean install

up: build
	tools/demo

build:
	tools/deps build
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

# make fuzz T=profile [SECONDS=600]
fuzz:
	SECONDS_TO_RUN=$(or $(SECONDS),60) tools/fuzz $(T)

bench: build
	bench/run

bench-gate: build
	tools/deps bench
	bench/run-gate

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

install: build
	meson install -C $(BUILD)

clean:
	rm -rf $(BUILD) build-clang build-sanitize build-fuzz
