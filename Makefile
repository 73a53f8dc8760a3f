# memwal: a loadable SQLite extension. `make help` lists the targets.
#
# Objects of one source live apart by variant, build/<variant>/...:
#   plain  what is shipped          gcc -O2, asserts off
#   asan   tests                    gcc, address and undefined-behaviour sanitizers
#   tiny   tests of the extension   as asan, with limits of a few rows (core/db.c)
#   tsan   tests with threads       clang, thread sanitizer
#   clang  warnings of the other compiler, nothing is linked
# build/<variant>/static/ has the glue as it is compiled into a program together with SQLite.

CC    = gcc
CLANG = clang
JOBS := $(shell nproc 2>/dev/null || echo 2)

PREFIX  = /usr/local
LIBDIR  = $(PREFIX)/lib
DESTDIR =

WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion
# Set by the test targets: a warning of somebody's future compiler must not stop his build.
WERROR =
COMMON = -std=c11 -D_GNU_SOURCE $(WARNINGS) -g -fPIC -fvisibility=hidden -pthread -Icore -MMD -MP

CC_plain = $(CC)
CC_asan  = $(CC)
CC_tiny  = $(CC)
CC_tsan  = $(CLANG)
CC_clang = $(CLANG)
CFLAGS_plain = $(COMMON) $(WERROR) -O2 -DNDEBUG
CFLAGS_asan  = $(COMMON) -Werror -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
               -fno-sanitize-recover=undefined
CFLAGS_tiny  = $(CFLAGS_asan) -DMW_TINY
CFLAGS_tsan  = $(COMMON) -Werror -O1 -fsanitize=thread
CFLAGS_clang = $(COMMON) -Werror -O2
LDFLAGS_plain =
LDFLAGS_asan  = -fsanitize=address,undefined
LDFLAGS_tiny  = $(LDFLAGS_asan)
LDFLAGS_tsan  = -fsanitize=thread
VARIANTS = plain asan tiny tsan clang

ZSTD = -l:libzstd.a
LINK_SHARED = -shared -pthread -Wl,-z,defs -Wl,-z,now -Wl,--exclude-libs,ALL \
              -Wl,--version-script=ext/memwal.map

CORE    = $(wildcard core/*.c)
EXT     = $(wildcard ext/*.c)
# Of the tests that run SQLite on the simulated machine: these link what the others do not.
HOST    = tests/support/sim_vfs.c tests/support/sim_host.c
SUPPORT = $(filter-out %_test.c $(HOST),$(wildcard tests/support/*.c))

CORE_TESTS   = $(wildcard tests/core/*_test.c tests/support/*_test.c)
EXT_TESTS    = $(wildcard tests/ext/*_test.c)
DOUBT_TESTS  = $(wildcard tests/doubt/*_test.c)
CLIENT_TESTS = $(wildcard tests/clients/*_test.c)
SQL_TESTS    = $(wildcard tests/sql/*.sql)
SQL_PROGRAMS = $(wildcard tests/sql/*.c)
BENCH_FILES  = $(wildcard tests/bench/*.c)
LINT         = $(wildcard tests/lint/*.sh)
# Run under the thread sanitizer as well: every *_threads_test.c, and these.
THREADED     = $(wildcard $(addsuffix _test.c,tests/core/memtable tests/core/presence tests/core/cache tests/core/commit \
               tests/core/table_read tests/core/table_train tests/ext/share tests/ext/close))
TSAN_TESTS   = $(filter %_threads_test.c,$(CORE_TESTS) $(DOUBT_TESTS)) $(THREADED)

CORE_PROGRAMS   = $(CORE_TESTS:%.c=build/asan/%)
EXT_PROGRAMS    = $(EXT_TESTS:%.c=build/asan/%)
DOUBT_PROGRAMS  = $(DOUBT_TESTS:%.c=build/asan/%)
TSAN_PROGRAMS   = $(TSAN_TESTS:%.c=build/tsan/%)
CLIENT_PROGRAMS = $(CLIENT_TESTS:%.c=build/plain/%) $(SQL_PROGRAMS:%.c=build/plain/%)

core_objects    = $(CORE:%.c=build/$(1)/%.o)
ext_objects     = $(EXT:%.c=build/$(1)/%.o)
static_objects  = $(EXT:%.c=build/$(1)/static/%.o)
support_objects = $(SUPPORT:%.c=build/$(1)/%.o)
host_objects    = $(HOST:%.c=build/$(1)/static/%.o)
CLANG_OBJECTS = $(call core_objects,clang) $(call ext_objects,clang) $(call static_objects,clang)

CHECK_PROGRAMS = $(CORE_PROGRAMS) $(EXT_PROGRAMS)
TEST_PROGRAMS  = $(CHECK_PROGRAMS) $(DOUBT_PROGRAMS) $(TSAN_PROGRAMS) $(CLIENT_PROGRAMS)
QUICK_TESTS = $(CHECK_PROGRAMS) $(SQL_TESTS)
# spill.sql alone would take minutes: ten thousands of rows are thousands of files then.
TINY_TESTS  = $(addprefix tiny:,$(filter-out tests/sql/spill.sql,$(SQL_TESTS)) build/plain/tests/sql/differential)
ALL_TESTS   = $(TEST_PROGRAMS) $(SQL_TESTS) $(SQL_TESTS:%=asan:%) $(TINY_TESTS) $(LINT)

Q = $(if $(V),,@)
SUB = $(MAKE) --no-print-directory

.DEFAULT_GOAL = all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all demo test check bench golden lint install clean help build-deps test-programs check-programs \
        clang-warnings

all: ; @$(SUB) -j$(JOBS) build/memwal.so

help:
	@echo 'make           build/memwal.so (in the sqlite3 shell: .load build/memwal)'
	@echo 'make demo      load a real data set, count, flush, merge, kill -9; ROWS=n, CSV=file'
	@echo 'make test      everything; at most 10 minutes on two cores'
	@echo 'make check     the quick tests: units and SQL scripts; less than a minute'
	@echo 'make bench     figures of this machine, beside ordinary tables; BENCH=options'
	@echo 'make lint      rules of the source: layers, symbols, calls, style'
	@echo 'make golden    writes tests/golden/v<format version> anew'
	@echo 'make install   memwal.so to $$(DESTDIR)$$(LIBDIR), now $(DESTDIR)$(LIBDIR)'
	@echo 'make clean     removes build/'
	@echo 'V=1 shows the commands.'

build-deps: ; @tests/support/deps.sh build

# ---- objects and the extension -------------------------------------------------------------------

define variant_rules
build/$(1)/%.o: %.c | build-deps
	@mkdir -p $$(@D)
	@echo '  $(1)  $$<'
	$$(Q)$$(CC_$(1)) $$(CFLAGS_$(1)) $$(EXTRA) -c $$< -o $$@
build/$(1)/static/%.o: %.c | build-deps
	@mkdir -p $$(@D)
	@echo '  $(1)  $$< (static)'
	$$(Q)$$(CC_$(1)) $$(CFLAGS_$(1)) $$(EXTRA) -DSQLITE_CORE -c $$< -o $$@
build/$(1)/memwal.so: $$(call core_objects,$(1)) $$(call ext_objects,$(1)) ext/memwal.map
	@echo '  $(1)  $$@'
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) $$(LINK_SHARED) $$(filter %.o,$$^) $$(ZSTD) -o $$@
build/$(1)/tests/core/%: build/$(1)/tests/core/%.o $$(call core_objects,$(1)) $$(call support_objects,$(1))
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) $$^ -lcmocka $$(ZSTD) -pthread -o $$@
build/$(1)/tests/support/%: build/$(1)/tests/support/%.o $$(call core_objects,$(1)) $$(call support_objects,$(1))
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) $$^ -lcmocka $$(ZSTD) -pthread -o $$@
build/$(1)/tests/doubt/%: build/$(1)/tests/doubt/%.o $$(call core_objects,$(1)) $$(call support_objects,$(1))
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) $$^ -lcmocka $$(ZSTD) -pthread -o $$@
build/$(1)/tests/doubt/host%: build/$(1)/static/tests/doubt/host%.o $$(call core_objects,$(1)) \
        $$(call static_objects,$(1)) $$(call support_objects,$(1)) $$(call host_objects,$(1))
	@mkdir -p $$(@D)
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) $$^ -lcmocka -lsqlite3 $$(ZSTD) -pthread -o $$@
build/$(1)/tests/ext/%: build/$(1)/static/tests/ext/%.o $$(call core_objects,$(1)) $$(call static_objects,$(1))
	@mkdir -p $$(@D)
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) $$^ -lcmocka -lsqlite3 $$(ZSTD) -pthread -o $$@
build/$(1)/tests/clients/%: build/$(1)/tests/clients/%.o
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) $$^ -lcmocka -lsqlite3 -pthread -o $$@
build/$(1)/tests/bench/bench: $(BENCH_FILES:%.c=build/$(1)/%.o)
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) $$^ -lsqlite3 -pthread -o $$@
build/$(1)/tests/sql/%: build/$(1)/tests/sql/%.o
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) $$^ -lsqlite3 -pthread -o $$@
build/$(1)/tests/%: EXTRA = -Itests/support
build/$(1)/static/tests/%: EXTRA = -Iext -Itests/support
endef
$(foreach variant,$(VARIANTS),$(eval $(call variant_rules,$(variant))))

build/memwal.so: build/plain/memwal.so
	@cp $< $@.new && mv $@.new $@

-include $(foreach variant,$(VARIANTS),$(wildcard build/$(variant)/*/*.d \
    build/$(variant)/*/*/*.d build/$(variant)/*/*/*/*.d))

# ---- what people run -----------------------------------------------------------------------------

demo:
	@tests/support/deps.sh demo
	@$(SUB) -j$(JOBS) build/memwal.so
	@sql/demo.sh

install: all
	install -D -m 644 build/memwal.so $(DESTDIR)$(LIBDIR)/memwal.so

clean: ; rm -rf build

# ---- tests: built as far as possible, what could not be built fails in the run --------------------

check-programs: build/memwal.so $(CHECK_PROGRAMS)
test-programs: check-programs build/asan/memwal.so build/tiny/memwal.so $(TEST_PROGRAMS) clang-warnings
clang-warnings: $(CLANG_OBJECTS)

check:
	@tests/support/deps.sh test
	@$(SUB) -j$(JOBS) -k check-programs || true
	@tests/support/run.sh $(QUICK_TESTS)

test:
	@tests/support/deps.sh test
	@rm -rf build/failed
	@$(SUB) -j$(JOBS) -k test-programs WERROR=-Werror || touch build/failed
	@tests/support/run.sh build/failed $(ALL_TESTS)

lint: all
	@tests/support/run.sh $(LINT)

# Stores in the format that is written now, for the tests of the versions to come.
golden: all build/plain/tests/clients/golden_test
	@build/plain/tests/clients/golden_test --make tests/golden

bench: all build/plain/tests/bench/bench
	@build/plain/tests/bench/bench build/memwal.so build/bench $(BENCH)
