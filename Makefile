# hjoin_gpu: build, install and test.  "make" builds the extension and the
# device program with PGXS; "make demo" and "make check" first install the
# packages they need.  Every source file of a room is built; a new file needs
# no line here.  A new pg_regress file goes into REGRESS.

EXTENSION = hjoin_gpu
DATA = sql/hjoin_gpu--1.0.sql
MODULE_big = hjoin_gpu

# rooms that do not know PostgreSQL; they are linked into both
ROOMS_PURE = model arena engine
ROOMS_PG = base service marshal planner executor
pure_srcs = $(filter-out %_pg.c,$(foreach r,$(ROOMS_PURE),$(wildcard src/$(r)/*.c)))
pg_srcs = src/hjoin_gpu.c $(wildcard src/arena/*_pg.c) $(foreach r,$(ROOMS_PG),$(wildcard src/$(r)/*.c))
device_srcs = $(wildcard src/device/*.c)

OBJS = $(pg_srcs:.c=.o) $(pure_srcs:.c=.o)
PROGRAM_DEVICE = hjoin_gpu_device

REGRESS = setup join_inner join_outer join_semi_anti keys_exact keys_hashed keys_cross_type null_keys \
	residual_quals payload_toast whole_row subqueries_ctes setops_views_rls partitioned placeholder_vars \
	rescan_lateral cursors_limit prepared_generic plpgsql_exceptions mutating_cte foreign_tables \
	partition_spill declined explain_formats gucs views
ISOLATION =
ISOLATION_OPTS = --inputdir=test/isolation --load-extension=hjoin_gpu
REGRESS_OPTS = --inputdir=. --load-extension=hjoin_gpu

EXTRA_CLEAN = $(PROGRAM_DEVICE) build tmp_check tmp_check_iso output_iso results regression.diffs regression.out log

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

PG_CPPFLAGS = -I$(CURDIR)/src
PG_CFLAGS = -std=gnu11 -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Wno-declaration-after-statement -O2
# no LLVM bitcode: the hot loops are ours, not inlined into queries
with_llvm = no

# PGXS has a "check" of its own, and the commands of users need no PGXS
COMMANDS = check check-core demo demo-stop bench lint
ifneq ($(filter-out $(COMMANDS),$(or $(MAKECMDGOALS),all)),)
ifneq ($(PGXS),)
include $(PGXS)
override with_llvm = no
endif
endif

SHLIB_LINK += -pthread

# Plain C objects of the device program: own flags, no server headers.
DEVICE_CC ?= $(CC)
DEVICE_CFLAGS = -std=gnu11 -O3 -g -Wall -Wextra -Werror -Wno-unused-parameter -pthread -fPIC -Isrc
build/%.o: src/%.c $(wildcard src/*/*.h)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -c -o $@ $<
$(pure_srcs:.c=.o): %.o: %.c $(wildcard src/*/*.h)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -c -o $@ $<
$(pg_srcs:.c=.o): $(wildcard src/*/*.h)

device_objs = $(patsubst src/%.c,build/%.o,$(device_srcs)) $(pure_srcs:.c=.o)
$(PROGRAM_DEVICE): $(device_objs)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -o $@ $^ -ldl -lm

all: $(PROGRAM_DEVICE)
install: install-device
install-device: $(PROGRAM_DEVICE)
	$(MKDIR_P) '$(DESTDIR)$(bindir)'
	$(INSTALL_PROGRAM) $(PROGRAM_DEVICE) '$(DESTDIR)$(bindir)/$(PROGRAM_DEVICE)'
uninstall: uninstall-device
uninstall-device:
	rm -f '$(DESTDIR)$(bindir)/$(PROGRAM_DEVICE)'
.PHONY: install-device uninstall-device

# --- commands of users and tests of all rooms: see test/ ---
ifeq ($(filter-out $(COMMANDS),$(or $(MAKECMDGOALS),all)),)
check:
	@test/run_check.sh
check-core:
	@test/core/run_core.sh '$(PGSRC)'
demo:
	@test/demo/demo.sh start
demo-stop:
	@test/demo/demo.sh stop
bench:
	@test/bench/bench.sh
lint:
	@test/run_lint.sh
.PHONY: $(COMMANDS)
endif
print-%:
	@echo '$($*)'
# --- end of commands and tests ---
