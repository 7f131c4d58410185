# SPDX-License-Identifier: MIT
# ZeroHTTPd Seven.  `make help` lists the targets.

# From the environment, make uses only CC, CPPFLAGS, CFLAGS, LDFLAGS and LDLIBS. Other variables, such
# as NAME or SERVER, have common names, so they are accepted only on make's command line.
$(foreach name,ALL ARGS BIN BUILD FILE BASELINE FOLDER FROM HOSTS INTO HINT N NAME RESULTS SCENARIO SERVER STEP STOREY STUDENT STUDY TARGET \
	TIME V,$(if $(findstring environment,$(origin $(name))),$(eval undefine $(name))))
# If scripts/foreign-variables is missing, as in a copy of only the sources, sed reads /dev/null.
FOREIGN := $(filter $(subst *,%,$(shell sed '/^#/d' /dev/null $(wildcard scripts/foreign-variables))),$(.VARIABLES))
unexport $(FOREIGN)

ifeq ($(origin CC),default)
CC = gcc
endif
# The user may set CC, CPPFLAGS, CFLAGS, LDFLAGS and LDLIBS. The hardening flags are in the
# defaults, so the flags of a user or a distribution replace them.
CFLAGS ?= -O2 -g -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
LDFLAGS ?= -pie -Wl,-z,relro,-z,now
WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml 2>/dev/null)
COMPILE = $(CC) -std=gnu17 $(WARNINGS) -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -Ilib -fPIE -pthread $(CPPFLAGS) $(CFLAGS)
LINK = $(CC) $(CFLAGS) -pthread $(LDFLAGS)

# Print a short line for each step. V=1 prints the commands, -s prints nothing.
say = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),,@printf '  %-4s %s\n' $(1) $(2))
Q = $(if $(V),,@)

# Folders of the objects, the executables and the baselines.
BUILD ?= build/release
BIN ?= .
BASELINE ?= build/baselines

# Every folder NN_name/ with a main.c is a server, so a new server needs no line here.
EVERY_FOLDER := $(patsubst %/main.c,%,$(sort $(wildcard [0-9][0-9]_*/main.c)))
# A server that needs more than the C library has a file NN_name/ldflags with the options of the
# linker. If the preprocessor fails on the server's main.c, or the linker does not find the library,
# make omits the server. A student may have written `ldflags`, and make runs with your rights. So the
# options are quoted, and make expands the options and the files' names only once.
ldflags = $(if $(wildcard $(1)/ldflags),$(foreach word,$(file <$(1)/ldflags),'$(subst ','\'',$(word))'))
libraries = $(filter '-l%,$(call ldflags,$(1)))
try = $(COMPILE) -E $(1)/main.c >/dev/null && $(if $(call libraries,$(1)),echo 'int main(void) \
	{ return 0; }' | $(LINK) -xc - $(call libraries,$(1)) -o /dev/null,:)
LEFT_OUT := $(foreach file,$(wildcard [0-9][0-9]_*/ldflags),$(if \
	$(shell unset $(filter-out SHELLOPTS BASHOPTS BASH_FUNC_%,$(FOREIGN)); ($(call try,$(patsubst %/,%,$(dir $(file))))) 2>/dev/null && echo fits),,$(patsubst %/,%,$(dir $(file)))))
FOLDERS := $(filter-out $(LEFT_OUT),$(EVERY_FOLDER))
PLAIN := $(wildcard lib/plain/*.c)
LIB := $(filter-out $(PLAIN),$(wildcard lib/*/*.c lib/*/*/*.c))
# The second storey: ops/, or lib/plain/ in its place (see lib/ops.h).
OPS := $(wildcard ops/*.c)
STOREY ?= $(OPS)
ARCHIVE = $(BUILD)/libzerohttpd.a
PROTO := $(wildcard lib/proto/*.c)
UNIT_TESTS := $(patsubst tests/unit/%.c,%,$(sort $(wildcard tests/unit/test_*.c)))
UNIT_PROGRAMS = $(UNIT_TESTS:%=$(BUILD)/tests/unit/%) $(BUILD)/tests/unit/portable_coroutine
# Fuzz targets, each with a folder of inputs, and their shared sources.
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_PARTS := $(filter-out tests/fuzz/fuzz_%.c tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c))
FUZZ_REPLAYS = $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/replay_%)
PARSERS = $(BUILD)/tests/properties/parsers
BASELINES := $(filter-out $(LEFT_OUT),$(patsubst baselines/%.c,%,$(sort $(wildcard baselines/[0-9][0-9]_*.c))))

# 07_epoll -> epoll
name = $(patsubst $(firstword $(subst _, ,$(1)))_%,%,$(1))
objects = $(patsubst %.c,$(BUILD)/%.o,$(1))
SERVERS := $(foreach folder,$(FOLDERS),$(call name,$(folder)))

PYTHON = .venv/bin/python
# Tests use a temporary folder instead of /tmp; the browser and Ansible use it instead of the home
# folder. Servers that do not run as root need access to this folder. A make that a test runs gets no
# flags from this make.
PYTEST = unset MAKEFLAGS MFLAGS MAKELEVEL ARGS; folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && trap 'exit 130' INT HUP TERM && chmod 755 "$$folder" && \
	TMPDIR=$$folder XDG_CONFIG_HOME=$$folder ANSIBLE_HOME=$$folder/ansible \
	ANSIBLE_REMOTE_TMP=$$folder/ansible $(PYTHON) -m pytest
# Many tests, above all in tests/e2e, wait for a timeout most of the time. So the number of parallel
# tests exceeds the number of processors. tests/options.py sets the order of the tests.
PARALLEL = -n $(1) --dist loadgroup --no-loadscope-reorder
# make with all processors, or with N processors for `make -jN`.
MAKE_ALL = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))
ZEROHTTPD = .venv/bin/zerohttpd
SETUP = CC='$(CC)' scripts/setup.sh
ARGS ?=
# Quote a value for the shell, because a folder may have a student's name such as O'Brien.
quoted = '$(subst ','\'',$(value $(1)))'

all: $(SERVERS:%=$(BIN)/%) ## Learn: build the servers into this folder (10 s; needs gcc and the headers of uthash)
	@: # otherwise make reports that there is nothing to do
	@$(foreach folder,$(LEFT_OUT),{ $(call try,$(folder)); } 2>&1 | sed -n -e 's/.*error: \(#error \)*/$(call name,$(folder)) is left out: /p' \
		-e 's/.*\(cannot find -l[^:]*\).*/$(call name,$(folder)) is left out: the linker \1/p' | head -n 1;)

SANITIZED = -O1 -g -fno-omit-frame-pointer -DSANITIZED
debug: ##- Contribute: build into build/debug with the address and undefined-behaviour sanitizers (20 s)
	$(MAKE) $(or $(TARGET),all) BUILD=build/debug/objects BIN=build/debug \
		CFLAGS='$(SANITIZED) -fsanitize=address,undefined -fno-sanitize-recover=all'

plain: ##- Learn: build the servers without the second storey, ops/, into build/plain (10 s)
	$(MAKE) $(or $(TARGET),all) BUILD=build/plain/objects BIN=build/plain STOREY="$(PLAIN)"

tsan: ##- Contribute: build into build/tsan with the thread sanitizer (20 s)
	$(MAKE) $(or $(TARGET),all) BUILD=build/tsan/objects BIN=build/tsan \
		CFLAGS='$(SANITIZED) -fsanitize=thread'

bench: ## Benchmark: measure the seven servers (2 min; installs ab, Redis: 115 MB); ARGS=--full; HOSTS=lab
	@$(if $(filter-out lab,$(HOSTS)),test -e '$(strip $(HOSTS))' || { echo "make bench: HOSTS=$(strip $(HOSTS)): no such file; give an inventory or lab" >&2; exit 2; })
	@$(SETUP) build bench $(if $(HOSTS),hosts)
ifneq ($(strip $(HOSTS)),)
	@$(ZEROHTTPD) hosts --inventory '$(strip $(HOSTS))' $(ARGS)
else
	@$(MAKE) --no-print-directory all baselines
	@$(ZEROHTTPD) sweep $(ARGS)
endif

lab: ##- Benchmark: make four one-core hosts on this machine (2 s, as root; installs Ansible: 60 MB); ARGS=down removes them
	@$(if $(filter down,$(ARGS)),,$(SETUP) build bench hosts)
	@scripts/lab $(if $(filter down,$(ARGS)),,up) $(ARGS)

# For scripts, the command doctor exits with 1 if a check fails. make does not report this as an error.
doctor: ##- Benchmark: check this machine and print fixes (2 s; installs Python packages: 40 MB); ARGS as for bench
	@$(SETUP) read
	@$(ZEROHTTPD) doctor $(ARGS) || test $$? -eq 1

NEWEST = $(lastword $(sort $(wildcard results/[0-9]*)))
SHOWN = $(if $(RESULTS),$(call quoted,RESULTS),'$(NEWEST)')
report: ## Benchmark: make an HTML page of the last results, or of RESULTS=results/... (10 s; installs what doctor installs)
	@test -n $(SHOWN) || { echo 'no results yet: run make bench first'; exit 1; }
	@$(SETUP) read
	@$(ZEROHTTPD) report $(SHOWN) $(ARGS)

serve: ## Learn: run servers, each with its own Redis, and the page /live (until Ctrl-C; installs what bench installs): make serve SERVER="iterative epoll"
	@$(SETUP) build bench
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) serve $(or $(SERVER),epoll) $(ARGS)

study: ##- Benchmark: measure a study of your own (some minutes; installs what bench installs): make study FILE=my.toml
	@test -n $(call quoted,FILE) || { echo 'give a file, for example: make study FILE=my.toml'; exit 1; }
	@$(SETUP) build bench
	@$(MAKE) --no-print-directory all baselines
	@$(ZEROHTTPD) run $(call quoted,FILE) $(ARGS)

measure: ##- Benchmark: measure CPU and memory against nginx, Go and the baselines (15 min; installs them)
	@$(SETUP) build bench compare
	@$(MAKE) --no-print-directory all baselines
	@$(ZEROHTTPD) measure $(ARGS)

peers: ##- Benchmark: repeat published comparisons with other servers (8 min; installs them): make peers STUDY=now
	@$(SETUP) read
	@$(ZEROHTTPD) peers --list $(STUDY) >/dev/null
	@$(SETUP) build bench peers
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) peers $(STUDY) $(ARGS)

cost: ##- Benchmark: show where the CPU time of a request goes (12 min; installs perf, strace)
	@$(SETUP) build bench trace fault
	@$(MAKE) --no-print-directory all baselines
	@$(ZEROHTTPD) cost $(ARGS)

experiment: ##- Learn: measure a server with and without one change (1 min; installs perf, strace): make experiment N=edge
	@$(SETUP) build bench trace fault
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) experiment $(N) $(ARGS)

timeline: ##- Learn: draw the system calls of each server (30 s; installs strace); SERVER=epoll SCENARIO=silent
	@$(SETUP) build bench trace
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) timeline $(if $(SERVER),--servers $(call quoted,SERVER)) \
		$(if $(SCENARIO),--scenario $(call quoted,SCENARIO)) $(ARGS)

# NO_MKDOCS_2_WARNING disables a notice of the theme about version 2 of MkDocs.
site: ## Learn: make the web site: the annotated source and all documents (15 s; installs MkDocs: 27 MB)
	@$(SETUP) site
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build
	@echo 'Open build/site/tutorial/book/index.html in a browser. The search needs a server:'
	@echo '  $(PYTHON) -m http.server --bind 127.0.0.1 --directory build/site'

slides: ## Teach: make slides and sheets (10 s; installs what doctor installs); ARGS=--expected measures their figures on this machine (2 min)
	@$(SETUP) read $(if $(findstring --expected,$(ARGS)),build bench)
	@$(if $(findstring --expected,$(ARGS)),$(MAKE) --no-print-directory all baselines >&2)
	@$(ZEROHTTPD) slides $(ARGS)

# Targets with the names of version 1.0, which work until the next version.
book: NOW = site
hint: NOW = fault N=$(N) HINT=$(or $(STEP),1)
expected: NOW = slides ARGS="$(strip --expected $(ARGS))"
lab-down: NOW = lab ARGS="$(strip down $(ARGS))"
floor: NOW = baselines
book hint expected lab-down floor:
	@echo 'make $@ is now: make $(NOW)' >&2
	@$(MAKE) --no-print-directory $(NOW)

fault: ##- Learn: make a copy with a fault to find (2 s; installs patch): make fault N=07 or STUDENT=id; HINT=1, 2, 3, answer
	@test -n $(call quoted,N)$(call quoted,STUDENT) || { echo 'give a number, for example: make fault N=07'; exit 1; }
	@$(SETUP) read fault
	@$(ZEROHTTPD) fault $(N) $(if $(STUDENT),--student $(call quoted,STUDENT)) $(if $(HINT),--hint $(call quoted,HINT)) \
		$(if $(INTO),--into $(call quoted,INTO)) $(ARGS)

student-copy: ##- Teach: make an archive for students, without solutions and answers (5 s; installs patch); ARGS="--faults 01,08"
	@$(SETUP) read fault
	@$(ZEROHTTPD) student-copy $(ARGS)

new: ## Learn: create a server of your own (1 s; installs what bench installs): make new NAME=08_mine FROM=05_prethreading, or FROM=scratch
	@test -n $(call quoted,NAME) || { echo 'give a name, for example: make new NAME=08_mine FROM=scratch'; exit 1; }
	@$(SETUP) build bench
	@$(ZEROHTTPD) new $(call quoted,NAME) $(if $(FROM),--from $(call quoted,FROM))

# The grader builds the graded program in a sandbox. make builds the libraries, and the seven servers,
# with which the grader compares the program.
SEVEN := $(foreach folder,$(wildcard 0[1-7]_*),$(call name,$(folder)))
BUILD_GRADER = { $(MAKE) --no-print-directory -s $(SEVEN:%=$(BIN)/%) && \
	$(MAKE) --no-print-directory -s tsan TARGET=build/tsan/objects/libzerohttpd.a && \
	$(MAKE) --no-print-directory -s debug TARGET=build/debug/objects/libzerohttpd.a; } >&2
grade: ## Teach: grade a server and name its faults (20 s; installs strace): make grade SERVER=08_mine
	@test -n $(call quoted,SERVER) || { echo 'give a server, for example: make grade SERVER=08_mine'; exit 1; }
	@$(SETUP) build bench trace
	@$(BUILD_GRADER)
	@$(ZEROHTTPD) grade $(call quoted,SERVER) $(ARGS)

grade-all: ## Teach: grade a class (up to 1 min each; installs copydetect: 40 MB): make grade-all FOLDER=submissions
	@test -n $(call quoted,FOLDER) || { echo 'give a folder, for example: make grade-all FOLDER=submissions'; exit 1; }
	@$(SETUP) build bench trace similar
	@$(BUILD_GRADER)
	@$(ZEROHTTPD) grade-all $(call quoted,FOLDER) $(ARGS)

torture: ##- Benchmark: test the robustness of servers under attack (5 min; installs what bench installs); ARGS="--servers epoll"
	@$(SETUP) build bench
	@$(MAKE) --no-print-directory all
	@$(ZEROHTTPD) torture $(ARGS)

baselines: $(BASELINES:%=$(BASELINE)/%) $(BASELINE)/first $(BASELINE)/without.so ##- Benchmark: build the baselines: a minimal server of each architecture (5 s)
	@: # see all

# The lab needs root. For other users, its tests are skipped, and its packages are not installed.
LAB_TESTS = $(if $(filter 0,$(shell id -u)),hosts)
test: ## Contribute: run the tests of a commit (5 min; installs 370 MB); ARGS="-k guestbook --server epoll"
test-all: ##- Contribute: run all tests before a merge (16 min; installs 370 MB); ARGS=--every-server repeats the shared tests in each server
test: TIER = --commit
test test-all:
	@$(SETUP) build bench test $(LAB_TESTS)
	@$(MAKE_ALL) all baselines unit faults
	@$(PYTEST) $(call PARALLEL,6) $(TIER) $(ARGS)

test-sanitized: test-debug test-tsan ##- Contribute: run the end-to-end tests with sanitizers (10 min; installs what test installs, and clang)

test-debug:
	@$(SETUP) build bench test sanitize
	@$(MAKE_ALL) debug TARGET='all unit'
	@$(PYTEST) tests/e2e $(call PARALLEL,10) --bin-dir build/debug $(ARGS)

test-plain: ##- Contribute: run the end-to-end tests of lib/ on servers without ops/ (5 min; installs what test installs)
	@$(SETUP) build bench test
	@$(MAKE_ALL) plain faults
	@$(PYTEST) tests/e2e $(call PARALLEL,10) --bin-dir build/plain $(ARGS)

test-tsan: # by default only threading and prethreading
	@$(SETUP) build bench test sanitize
	@$(MAKE_ALL) tsan
	@$(PYTEST) tests/e2e $(call PARALLEL,10) --bin-dir build/tsan \
		$(or $(ARGS),--server threading --server prethreading)

unit: unit-programs ##- Contribute: run the unit tests and the inputs that fuzzing has found (20 s; needs cmocka)
	@for test in $(UNIT_PROGRAMS); do $$test || exit 1; done
	@for name in $(FUZZ_TARGETS); do \
		$(BUILD)/tests/fuzz/replay_$$name tests/fuzz/corpus/$$name || exit 1; done

unit-programs: $(UNIT_PROGRAMS) $(FUZZ_REPLAYS) $(PARSERS)

faults: build/faults.so build/intruder.so ##- Contribute: build the libraries that tests load into servers (2 s)

# The fuzzer of whole exchanges uses one processor for TIME seconds. A second processor runs the fuzzer
# of the parsers for half of this time, and then the property tests. The fuzzers write findings to
# build/fuzz/found. After you have fixed a fault, move its input to tests/fuzz/corpus.
TIME ?= 30
FUZZ_FLAGS = -artifact_prefix=build/fuzz/found/ -timeout=20
fuzz: ##- Contribute: fuzz the parsers and whole exchanges (30 s; installs clang); TIME=3600
	@$(SETUP) build fuzz bench test
	@$(MAKE_ALL) $(FUZZ_TARGETS:%=build/fuzz/%) $(PARSERS)
	@mkdir -p $(FUZZ_TARGETS:%=build/fuzz/found/%)
	@$(MAKE) --no-print-directory -j2 $(FUZZ_TARGETS:%=fuzz-%)

fuzz-exchange:
	build/fuzz/exchange $(FUZZ_FLAGS) -max_total_time=$(TIME) -max_len=4096 \
		build/fuzz/found/exchange tests/fuzz/corpus/exchange

fuzz-proto:
	build/fuzz/proto $(FUZZ_FLAGS) -max_total_time=$$(($(TIME) / 2)) -max_len=20000 \
		build/fuzz/found/proto tests/fuzz/corpus/proto
	@end=$$(($$(date +%s) + $(TIME) / 2)); while \
		$(PYTHON) -m pytest -q tests/properties --hypothesis-profile=search || exit 1; \
		test $$(date +%s) -lt $$end; do :; done

lint: ##- Contribute: check layout, types, words and warnings of all sources (2 min; installs clang-tidy, shellcheck: 300 MB)
	@$(SETUP) build lint
	@scripts/lint.sh

clean: ##- Contribute: remove what was built (1 s)
	rm -rf build $(SERVERS) compile_commands.json

# Each list has the texts after ##. The list of ALL=1 also has the texts after ##-.
help: ##- Contribute: list the commands (1 s); ALL=1 lists all
	@for group in Learn Teach Benchmark Contribute; do echo "$$group:"; \
		sed -n "s/^\([a-z._-]*\):.*##$(if $(ALL),-*) $$group: \(.*\)/\1@\2/p" Makefile | \
		awk -F@ '{ printf "  %-21s %s\n", $$1, $$2 }'; done
	@echo 'The times were measured on two CPUs, without the installation. A command without "installs" installs nothing.'
	@$(if $(ALL),,echo 'More commands: make help ALL=1')

.PHONY: all debug plain tsan bench lab lab-down doctor report serve study measure peers cost experiment torture timeline site book floor slides expected fault student-copy hint new grade grade-all baselines test \
	test-all test-sanitized test-debug test-plain test-tsan unit unit-programs faults fuzz $(FUZZ_TARGETS:%=fuzz-%) lint clean help

# make uses these lines for a target without a rule, such as `make serv`.
Makefile: ; # so that make -B does not look for a rule
.DEFAULT:
	@echo 'make: there is no target $@; make help lists the commands' >&2; exit 2

# ---- Rules ----

define server_rule
$(BIN)/$(call name,$(1)): $$(call objects,$$(sort $$(wildcard $(1)/*.c))) $$(ARCHIVE)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(LINK) $$^ $$(call ldflags,$(1)) $$(LDLIBS) -o $$@
endef
$(foreach folder,$(FOLDERS),$(eval $(call server_rule,$(folder))))

# Make a new archive each time, without objects of deleted sources.
$(ARCHIVE): $(call objects,$(LIB) $(STOREY))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/tests/unit/test_%: $(BUILD)/tests/unit/test_%.o \
		$(BUILD)/tests/unit/harness.o $(ARCHIVE)
	$(call say,LD,$@)
	$(Q)$(LINK) $(filter %.o,$^) $(ARCHIVE) -lcmocka $(LDLIBS) -o $@

# The tests of coroutines need two sources of 10_coroutines. A second program runs these tests with
# the portable way to switch stacks (10_coroutines/stack.h).
COROUTINE = 10_coroutines/stack.c 10_coroutines/coroutine.c
$(BUILD)/tests/unit/test_coroutine: $(call objects,$(COROUTINE))
$(BUILD)/tests/unit/portable_coroutine: tests/unit/test_coroutine.c $(COROUTINE) \
		$(wildcard 10_coroutines/*.h) $(BUILD)/tests/unit/harness.o $(ARCHIVE)
	$(call say,LD,$@)
	$(Q)$(COMPILE) -DPORTABLE_SWITCH $(filter-out %.h,$^) $(LDFLAGS) -lcmocka $(LDLIBS) -o $@

# The linker replaces realloc by __wrap_realloc, so that a fuzz input determines when memory runs out.
FUZZED = $(FUZZ_PARTS) $(filter-out lib/net/% lib/process/%,$(LIB)) ops/cache.c ops/budget.c
FUZZ_OBJECTS = $(call objects,$(FUZZED))
$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o \
		$(FUZZ_OBJECTS)
	$(call say,LD,$@)
	$(Q)$(LINK) -Wl,--wrap=realloc $^ $(LDLIBS) -o $@

build/fuzz/%: tests/fuzz/fuzz_%.c $(FUZZED) \
		$(wildcard tests/fuzz/*.h lib/*.h lib/*/*.h lib/*/*/*.h ops/*.h) Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)clang -std=gnu17 -O1 -g -D_GNU_SOURCE -Ilib -pthread -Wl,--wrap=realloc \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(filter %.c,$^) -o $@

$(PARSERS): $(BUILD)/tests/properties/parsers.o $(call objects,$(PROTO))
	$(call say,LD,$@)
	$(Q)$(LINK) $^ $(LDLIBS) -o $@

# These libraries replace functions of the C library, with type conversions that ISO C forbids.
build/%.so: tests/faults/%.c Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(COMPILE) -Wno-pedantic -fPIC -shared $< $(LDLIBS) -o $@

$(BASELINE)/%.so: baselines/%.c Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(COMPILE) -Wno-pedantic -fPIC -shared $< $(LDLIBS) -o $@

$(BASELINE)/%: baselines/%.c $(wildcard baselines/*.h) lib/config.h Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(COMPILE) $(filter %.c,$^) $(LDFLAGS) $(call libraries,$*) $(LDLIBS) -o $@
$(BASELINE)/10_coroutines: 10_coroutines/stack.c 10_coroutines/stack.h 10_coroutines/limits.h

# The version is only in pyproject.toml.
$(BUILD)/lib/net/options.o: override CPPFLAGS += $(if $(VERSION),-DVERSION='"$(VERSION)"')
$(BUILD)/lib/net/options.o: $(wildcard pyproject.toml)

# Report a missing compiler or missing headers once, with the command that installs them.
$(BUILD)/headers: Makefile
	@command -v '$(firstword $(CC))' >/dev/null || { echo 'There is no C compiler called $(firstword $(CC)).'; \
		echo '  Debian, Ubuntu: apt-get install gcc libc6-dev; or name another compiler: make all CC=clang'; exit 1; } >&2
	@mkdir -p $(@D)
	@printf '#include <%s.h>\n' uthash utlist linux/openat2 linux/landlock | \
		$(COMPILE) -E -xc - >/dev/null 2>$@ || { grep -i 'error' $@; rm $@; \
		echo 'The servers need the headers of uthash and of Linux 5.13 or newer:'; \
		echo '  Debian 12, Ubuntu 22.04 or newer: apt-get install uthash-dev linux-libc-dev'; \
		echo '  Fedora: dnf install uthash-devel kernel-headers'; \
		echo '  Alpine: apk add uthash-dev linux-headers'; \
		echo '  Arch: pacman -S uthash linux-api-headers'; exit 1; } >&2

$(BUILD)/%.o: %.c Makefile | $(BUILD)/headers
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -MMD -MP -c $< -o $@

# The compiler command of each source, for editors and clang-tidy.
compile_commands.json: Makefile $(LIB) $(OPS) $(PLAIN) $(wildcard $(FOLDERS:%=%/*.c)) $(wildcard baselines/*.c) ##- Contribute: write the compiler commands for clangd (1 s)
	$(call say,GEN,$@)
	@{ printf '['; separator=; for source in $(filter %.c,$^); do \
		case $$source in baselines/without.c) more=-Wno-pedantic ;; *) more= ;; esac; \
		printf '%s\n{ "directory": "%s", "file": "%s",\n  "command": "%s" }' "$$separator" \
			"$$PWD" "$$source" '$(subst ",\\\",$(COMPILE)) '"$${more:+$$more }-c $$source"; separator=,; \
	done; printf '\n]\n'; } >$@

.SECONDARY:
-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d $(BUILD)/*/*/*/*.d)
