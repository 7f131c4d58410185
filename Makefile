# SPDX-License-Identifier: MIT
# ZeroHTTPd Seven.  `make help` lists the targets.

# Of what is exported, only CC, CPPFLAGS, CFLAGS, LDFLAGS and LDLIBS count here. The other variables
# are ordinary words, such as NAME or SERVER: they count only if they are given to make.
$(foreach name,ARGS BIN BUILD FLOOR FROM HOSTS INTO N NAME RESULTS SCENARIO SERVER STEP STUDY TARGET \
	TIME V,$(if $(findstring environment,$(origin $(name))),$(eval undefine $(name))))
# A copy of the sources alone builds as well: /dev/null replaces a missing list.
unexport $(filter $(subst *,%,$(shell sed '/^#/d' /dev/null $(wildcard scripts/foreign-variables))),$(.VARIABLES))

ifeq ($(origin CC),default)
CC = gcc
endif
# You can set CC, CPPFLAGS, CFLAGS, LDFLAGS, LDLIBS. Their defaults contain the hardening options,
# so these do not conflict with the options of a distribution that sets its own.
CFLAGS ?= -O2 -g -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
LDFLAGS ?= -pie -Wl,-z,relro,-z,now
WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml 2>/dev/null)
COMPILE = $(CC) -std=gnu17 $(WARNINGS) -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -Ilib -fPIE -pthread $(CPPFLAGS) $(CFLAGS)
LINK = $(CC) $(CFLAGS) -pthread $(LDFLAGS)

# A short line for each step; V=1 shows the commands themselves, -s nothing.
say = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),,@printf '  %-4s %s\n' $(1) $(2))
Q = $(if $(V),,@)

# Where objects go, and executables.
BUILD ?= build/release
BIN ?= .
FLOOR ?= build/floor

# Every folder NN_name/ with a main.c is a server: an eighth needs no line here.
FOLDERS := $(patsubst %/main.c,%,$(sort $(wildcard [0-9][0-9]_*/main.c)))
LIB := $(wildcard lib/*/*.c lib/*/*/*.c)
ARCHIVE = $(BUILD)/libzerohttpd.a
PROTO := $(wildcard lib/proto/*.c)
UNIT_TESTS := $(patsubst tests/unit/%.c,%,$(sort $(wildcard tests/unit/test_*.c)))
UNIT_PROGRAMS = $(UNIT_TESTS:%=$(BUILD)/tests/unit/%)
# Fuzz targets, each with a folder of inputs; what else they are made of.
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_PARTS := $(filter-out tests/fuzz/fuzz_%.c tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c))
FUZZ_REPLAYS = $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/replay_%)
PARSERS = $(BUILD)/tests/properties/parsers
FLOORS := $(patsubst floors/%.c,%,$(sort $(wildcard floors/[0-9][0-9]_*.c)))

# 07_epoll -> epoll
name = $(patsubst $(firstword $(subst _, ,$(1)))_%,%,$(1))
objects = $(patsubst %.c,$(BUILD)/%.o,$(1))
SERVERS := $(foreach folder,$(FOLDERS),$(call name,$(folder)))

PYTHON = .venv/bin/python
# What tests put into /tmp, and a browser and Ansible into the home, goes with them. Others than root
# must get through the folder. A make in a test does not inherit this one's options.
PYTEST = unset MAKEFLAGS MFLAGS MAKELEVEL ARGS; folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && trap 'exit 130' INT HUP TERM && chmod 755 "$$folder" && \
	TMPDIR=$$folder XDG_CONFIG_HOME=$$folder ANSIBLE_HOME=$$folder/ansible \
	ANSIBLE_REMOTE_TMP=$$folder/ansible $(PYTHON) -m pytest
ZEROHTTPD = .venv/bin/zerohttpd
SETUP = CC='$(CC)' scripts/setup.sh
ARGS ?=
# A folder may be called after its student: O'Brien.
quoted = '$(subst ','\'',$(value $(1)))'

all: $(SERVERS:%=$(BIN)/%) ## build all servers into this folder

SANITIZED = -O1 -g -fno-omit-frame-pointer -DSANITIZED
debug: ## build into build/debug/: address and undefined-behaviour sanitizers
	$(MAKE) $(or $(TARGET),all) BUILD=build/debug/objects BIN=build/debug \
		CFLAGS='$(SANITIZED) -fsanitize=address,undefined -fno-sanitize-recover=all'

tsan: ## build into build/tsan/: thread sanitizer
	$(MAKE) $(or $(TARGET),all) BUILD=build/tsan/objects BIN=build/tsan \
		CFLAGS='$(SANITIZED) -fsanitize=thread'

bench: ## sweep all servers with ab; ARGS="--full", ARGS=--help; HOSTS=lab or inventory.ini
	@$(SETUP) build bench $(if $(HOSTS),hosts)
ifneq ($(strip $(HOSTS)),)
	@$(ZEROHTTPD) hosts --inventory '$(strip $(HOSTS))' $(ARGS)
else
	@$(MAKE) --no-print-directory all floor
	@$(ZEROHTTPD) sweep $(ARGS)
endif

lab: ## four one-core hosts on this machine (root or sudo); ARGS="--servers 4"
	@$(SETUP) build bench hosts
	@scripts/lab up $(ARGS)

lab-down: ## remove the lab, also what is left of a killed one
	@scripts/lab down $(ARGS)

# Its exit status is for scripts; make ignores it.
doctor: ## check this machine and print fixes; ARGS as for bench
	@$(SETUP) read
	@$(ZEROHTTPD) doctor $(ARGS) || test $$? -eq 1

NEWEST = $(lastword $(sort $(wildcard results/[0-9]*)))
SHOWN = $(if $(RESULTS),$(call quoted,RESULTS),'$(NEWEST)')
report: ## one HTML page of the newest results, or of RESULTS=results/...
	@$(SETUP) read
	@test -n $(SHOWN) || { echo 'no results yet: run make bench first'; exit 1; }
	@$(ZEROHTTPD) report $(SHOWN) $(ARGS)

serve: ## run one server with a Redis of its own, and the page /live: make serve SERVER=epoll
	@$(SETUP) build bench
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) serve $(or $(SERVER),epoll) $(ARGS)

measure: ## CPU and memory against nginx, Go and the barest loops
	@$(SETUP) build bench compare
	@$(MAKE) --no-print-directory all floor
	@$(ZEROHTTPD) measure $(ARGS)

peers: ## what people would use instead, then and now: make peers, or STUDY=now
	@$(SETUP) read
	@$(ZEROHTTPD) peers --list $(STUDY) >/dev/null
	@$(SETUP) build bench peers
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) peers $(STUDY) $(ARGS)

cost: ## where the microseconds go, as a page: calls, switches, baselines, ablations, flame graphs
	@$(SETUP) build bench trace fault
	@$(MAKE) --no-print-directory all floor
	@$(ZEROHTTPD) cost $(ARGS)

experiment: ## a server as it is and with one thing otherwise, side by side: make experiment N=edge
	@$(SETUP) build bench trace fault
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) experiment $(N) $(ARGS)

timeline: ## draw what each server does, call by call; SERVER=epoll SCENARIO=silent
	@$(SETUP) build bench trace
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) timeline $(if $(SERVER),--servers $(call quoted,SERVER)) \
		$(if $(SCENARIO),--scenario $(call quoted,SCENARIO)) $(ARGS)

book: ## the annotated source as pages, with pictures and questions
	@$(SETUP) read
	@$(ZEROHTTPD) book $(ARGS)

slides: ## the slides and exercise sheets of docs/course/, to show and to print
	@$(SETUP) read
	@$(ZEROHTTPD) slides $(ARGS)

expected: ## the figures of the course's sheets on this machine, for the lecturer
	@$(SETUP) build bench
	@$(MAKE) --no-print-directory all floor >&2
	@$(ZEROHTTPD) expected $(ARGS)

fault: ## a copy of the project with a fault in it, to be found: make fault N=07, INTO=folder
	@test -n $(call quoted,N) || { echo 'say which: make fault N=07'; exit 1; }
	@$(SETUP) read fault
	@$(ZEROHTTPD) fault $(N) $(if $(INTO),--into $(call quoted,INTO)) $(ARGS)

hint: ## a hint to it: make hint N=07 STEP=1, 2, 3, answer
	@test -n $(call quoted,N) || { echo 'say which: make hint N=07 STEP=1'; exit 1; }
	@$(SETUP) read
	@$(ZEROHTTPD) hint $(N) --step $(or $(STEP),1)

new: ## begin a server of your own: make new NAME=08_mine FROM=05_prethreading, or FROM=scratch
	@$(SETUP) build bench
	@test -n $(call quoted,NAME) || { echo 'say which: make new NAME=08_mine FROM=scratch'; exit 1; }
	@$(ZEROHTTPD) new $(call quoted,NAME) $(if $(FROM),--from $(call quoted,FROM))

# The grading itself builds the graded program, within limits. These are only its prerequisites, and
# the seven servers that it is compared with.
SEVEN := $(foreach folder,$(wildcard 0[1-7]_*),$(call name,$(folder)))
grade: ## points for a server, stage by stage: make grade SERVER=08_mine; ARGS="--json"
	@$(SETUP) build bench trace
	@test -n $(call quoted,SERVER) || { echo 'say which: make grade SERVER=08_mine'; exit 1; }
	@$(MAKE) --no-print-directory -s $(SEVEN:%=$(BIN)/%) >&2
	@$(MAKE) --no-print-directory -s tsan TARGET=build/tsan/objects/libzerohttpd.a >&2
	@$(MAKE) --no-print-directory -s debug TARGET=build/debug/objects/libzerohttpd.a >&2
	@$(ZEROHTTPD) grade $(call quoted,SERVER) $(ARGS)

torture: ## every server under every attack, five minutes; ARGS="--servers epoll", ARGS=--help
	@scripts/setup.sh build bench
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) torture $(ARGS)

floor: $(FLOORS:%=$(FLOOR)/%) $(FLOOR)/first $(FLOOR)/without.so ## build the first server and the barest loop of each architecture

# The lab needs root; for others its tests are skipped, and its packages are not wanted.
LAB_TESTS = $(if $(filter 0,$(shell id -u)),hosts)
test: ## all tests; ARGS="-k guestbook --server epoll"
	@$(SETUP) build bench test $(LAB_TESTS)
	@$(MAKE) --no-print-directory all floor unit faults
	@$(PYTEST) -n 4 --dist loadgroup $(ARGS)

test-all: ## before a merge: also what all servers share (HTTP syntax, pages, files) in each of them
	@$(MAKE) --no-print-directory test ARGS='--every-server $(ARGS)'

test-sanitized: test-debug test-tsan ## the same, built with the sanitizers

test-debug:
	@$(SETUP) build bench test sanitize
	@$(MAKE) --no-print-directory debug TARGET='all unit'
	@$(PYTEST) tests/e2e -n 4 --dist loadgroup --bin-dir build/debug $(ARGS)

test-tsan: # those that have threads
	@$(SETUP) build bench test sanitize
	@$(MAKE) --no-print-directory tsan
	@$(PYTEST) tests/e2e -n 4 --dist loadgroup --bin-dir build/tsan \
		$(or $(ARGS),--server threading --server prethreading)

unit: unit-programs ## the unit tests alone, and what the fuzzers have found
	@for test in $(UNIT_PROGRAMS); do $$test || exit 1; done
	@for name in $(FUZZ_TARGETS); do \
		$(BUILD)/tests/fuzz/replay_$$name tests/fuzz/corpus/$$name || exit 1; done

unit-programs: $(UNIT_PROGRAMS) $(FUZZ_REPLAYS) $(PARSERS)

faults: build/faults.so build/intruder.so ## build what the tests load into servers

# Half of the time for whole exchanges, a quarter each for the parsers alone and for properties.
# Findings stay in build/fuzz/found; inputs of fixed bugs go to tests/fuzz/corpus.
TIME ?= 60
FUZZ_FLAGS = -artifact_prefix=build/fuzz/found/ -timeout=20
fuzz: ## fuzz exchanges and parsers for a minute; TIME=3600
	@$(SETUP) build fuzz bench test
	@$(MAKE) --no-print-directory $(FUZZ_TARGETS:%=build/fuzz/%) $(PARSERS)
	@mkdir -p $(FUZZ_TARGETS:%=build/fuzz/found/%)
	build/fuzz/exchange $(FUZZ_FLAGS) -max_total_time=$$(($(TIME) / 2)) -max_len=4096 \
		build/fuzz/found/exchange tests/fuzz/corpus/exchange
	build/fuzz/proto $(FUZZ_FLAGS) -max_total_time=$$(($(TIME) / 4)) -max_len=20000 \
		build/fuzz/found/proto tests/fuzz/corpus/proto
	@end=$$(($$(date +%s) + $(TIME) / 4)); while \
		$(PYTHON) -m pytest -q tests/properties --hypothesis-profile=search || exit 1; \
		test $$(date +%s) -lt $$end; do :; done

lint: ## formatting, static analysis, warnings of gcc and clang
	@$(SETUP) build lint
	@scripts/lint.sh

clean: ## remove what was built
	rm -rf build $(SERVERS) compile_commands.json

help: ## list the targets
	@sed -n 's/^\([a-z._-]*\):.*## \(.*\)/\1@\2/p' $(firstword $(MAKEFILE_LIST)) | \
		awk -F@ '{ printf "%-16s %s\n", $$1, $$2 }'

.PHONY: all debug tsan bench lab lab-down doctor report serve measure peers cost experiment torture timeline book slides expected fault hint new grade floor test \
	test-all test-sanitized test-debug test-tsan unit unit-programs faults fuzz lint clean help

# ---- How things are made ----

define server_rule
$(BIN)/$(call name,$(1)): $(call objects,$(1)/main.c) $$(ARCHIVE)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(LINK) $$^ $$(LDLIBS) -o $$@
endef
$(foreach folder,$(FOLDERS),$(eval $(call server_rule,$(folder))))

# Made anew each time: an object whose source is gone must not stay in it.
$(ARCHIVE): $(call objects,$(LIB))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/tests/unit/test_%: $(BUILD)/tests/unit/test_%.o \
		$(BUILD)/tests/unit/harness.o $(ARCHIVE)
	$(call say,LD,$@)
	$(Q)$(LINK) $^ -lcmocka $(LDLIBS) -o $@

# The linker puts __wrap_realloc in place of realloc: memory runs out when a script says so.
FUZZED = $(FUZZ_PARTS) $(filter-out lib/net/% lib/process/%,$(LIB))
FUZZ_OBJECTS = $(call objects,$(FUZZED))
$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o \
		$(FUZZ_OBJECTS)
	$(call say,LD,$@)
	$(Q)$(LINK) -Wl,--wrap=realloc $^ $(LDLIBS) -o $@

build/fuzz/%: tests/fuzz/fuzz_%.c $(FUZZED) \
		$(wildcard tests/fuzz/*.h lib/*.h lib/*/*.h lib/*/*/*.h) Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)clang -std=gnu17 -O1 -g -D_GNU_SOURCE -Ilib -pthread -Wl,--wrap=realloc \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(filter %.c,$^) -o $@

$(PARSERS): $(BUILD)/tests/properties/parsers.o $(call objects,$(PROTO))
	$(call say,LD,$@)
	$(Q)$(LINK) $^ $(LDLIBS) -o $@

# They stand in for functions of the C library, whose types ISO C does not allow.
build/%.so: tests/faults/%.c Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(COMPILE) -Wno-pedantic -fPIC -shared $< $(LDLIBS) -o $@

$(FLOOR)/%.so: floors/%.c Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(COMPILE) -Wno-pedantic -fPIC -shared $< $(LDLIBS) -o $@

$(FLOOR)/%: floors/%.c $(wildcard floors/*.h) lib/config.h Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(COMPILE) $< $(LDFLAGS) $(LDLIBS) -o $@

# The one place of the version is pyproject.toml.
$(BUILD)/lib/net/options.o: override CPPFLAGS += $(if $(VERSION),-DVERSION='"$(VERSION)"')
$(BUILD)/lib/net/options.o: $(wildcard pyproject.toml)

# Said once, in words, before a compiler says it five times in its own.
$(BUILD)/headers: Makefile
	@command -v '$(firstword $(CC))' >/dev/null || { echo 'There is no C compiler called $(firstword $(CC)).'; \
		echo '  Debian, Ubuntu: apt-get install gcc libc6-dev; or take another one: make all CC=clang'; exit 1; } >&2
	@mkdir -p $(@D)
	@printf '#include <%s.h>\n' uthash utlist linux/openat2 linux/landlock | \
		$(COMPILE) -E -xc - >/dev/null 2>$@ || { grep -i 'error' $@; rm $@; \
		echo 'In addition to a C library the servers need uthash, and headers of Linux 5.13 or newer:'; \
		echo '  Debian 12, Ubuntu 22.04 or newer: apt-get install uthash-dev linux-libc-dev'; \
		echo '  Fedora: dnf install uthash-devel kernel-headers'; \
		echo '  Alpine: apk add uthash-dev linux-headers'; \
		echo '  Arch: pacman -S uthash linux-api-headers'; exit 1; } >&2

$(BUILD)/%.o: %.c Makefile | $(BUILD)/headers
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -MMD -MP -c $< -o $@

# What editors and clang's tools read: how each source is compiled.
compile_commands.json: Makefile $(LIB) $(FOLDERS:%=%/main.c) $(wildcard floors/*.c) ## for clangd and the like
	$(call say,GEN,$@)
	@{ printf '['; separator=; for source in $(filter %.c,$^); do \
		case $$source in floors/without.c) more=-Wno-pedantic ;; *) more= ;; esac; \
		printf '%s\n{ "directory": "%s", "file": "%s",\n  "command": "%s" }' "$$separator" \
			"$$PWD" "$$source" '$(subst ",\\\",$(COMPILE)) '"$${more:+$$more }-c $$source"; separator=,; \
	done; printf '\n]\n'; } >$@

.SECONDARY:
-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d $(BUILD)/*/*/*/*.d)
