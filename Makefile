# hjoin_gpu: build, install and test.  "make" builds the extension and the
# device program with PGXS; "make demo" and "make check" first install the
# packages they need.  Every source file of a room is built; a new file needs
# no line here.  A new pg_regress file goes into REGRESS.

EXTENSION = hjoin_gpu
# of every version a script that installs it, and scripts from one to the next: see src/README.md
DATA = $(wildcard sql/hjoin_gpu--*.sql)
MODULE_big = hjoin_gpu

# rooms that do not know PostgreSQL: linked into the server's library and the device program, and into the latter only
ROOMS_PURE = model arena engine vector
ROOMS_DEVICE = coupled device
ROOMS_PG = base huge service kept scan rows planner node calibrate
pure_srcs = $(filter-out %_pg.c,$(foreach r,$(ROOMS_PURE),$(wildcard src/$(r)/*.c)))
pg_srcs = src/hjoin_gpu.c $(wildcard src/*/*_pg.c) $(foreach r,$(ROOMS_PG),$(wildcard src/$(r)/*.c))
device_srcs = $(foreach r,$(ROOMS_DEVICE),$(wildcard src/$(r)/*.c))

OBJS = $(pg_srcs:.c=.o) $(pure_srcs:.c=.o)
PROGRAM_DEVICE = hjoin_gpu_device

REGRESS = setup join_inner join_outer join_semi_anti keys_collide keys_exact keys_hashed keys_varlena keys_cross_type null_keys \
	join_chain residual_quals payload_toast whole_row subqueries_ctes setops_views_rls partitioned placeholder_vars \
	rescan_lateral cursors_limit cursors_suspended prepared_generic plpgsql_exceptions mutating_cte foreign_tables \
	dense_keys partition_spill memory_bounds many_nodes join_first_match parallel direct_scan direct_quals bloom_filter travelling_filters aggregate \
	grouping distinct \
	parallel_grouping floats variances numeric case_dates substring unnest index_joins estimates scan_prices declined explain_formats \
	gucs views verify
ISOLATION = read_committed repeatable_read serializable for_update open_cursor direct_scan kept_columns
ISOLATION_OPTS = --inputdir=test/isolation --load-extension=hjoin_gpu
REGRESS_OPTS = --inputdir=. --load-extension=hjoin_gpu

EXTRA_CLEAN = $(PROGRAM_DEVICE) build tmp_check tmp_check_iso output_iso results regression.diffs regression.out log

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

PG_CPPFLAGS = -I$(CURDIR)/src
# nobody puts a function of the same name before one of ours: calls within a file may be direct
PG_CFLAGS = -std=gnu11 -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Wno-declaration-after-statement -O2 -fno-semantic-interposition
# no LLVM bitcode: the hot loops are ours, not inlined into queries
override with_llvm = no

# PGXS has a "check" of its own, and the commands of users need no PGXS
COMMANDS = check check-core check-deb check-install deb demo demo-shards demo-stop dist bench bench-cache bench-choice bench-events bench-gpu bench-planning bench-report bench-tpch lint lab
GOALS = $(or $(MAKECMDGOALS),all)
ifneq ($(filter-out $(COMMANDS),$(GOALS)),)
# pgxs.mk comes with the client's packages: it tells nothing of the headers
ifneq ($(wildcard $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)/postgres.h),)
include $(PGXS)
else ifneq ($(filter all install installcheck uninstall,$(GOALS)),)
PG_MAJOR := $(shell $(PG_CONFIG) --version 2>/dev/null | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
$(error no server headers for $(PG_CONFIG): apt-get install $(if $(PG_MAJOR),postgresql-$(PG_MAJOR) postgresql-server-dev-$(PG_MAJOR),postgresql postgresql-server-dev-all), or set PG_CONFIG)
endif
endif

# likewise calls between files: without the linker's stubs the planner's hook takes a tenth less time
SHLIB_LINK += -pthread -Wl,-Bsymbolic-functions

# Plain C objects of the device program: own flags, no server headers.
DEVICE_CC ?= $(CC)
DEVICE_CFLAGS = -std=gnu11 -O3 -g -Wall -Wextra -Werror -Wno-unused-parameter -pthread -fPIC -fno-semantic-interposition -Isrc -I.
build/%.o: src/%.c $(wildcard src/*/*.h kernels/hjg_*)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -c -o $@ $<
$(pure_srcs:.c=.o): %.o: %.c $(wildcard src/*/*.h kernels/hjg_*)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -c -o $@ $<
$(pg_srcs:.c=.o): $(wildcard src/*/*.h) build/server
# the server that objects are compiled for: where PG_CONFIG names another one they are compiled again
build/server: FORCE
	@mkdir -p $(@D)
	@echo '$(MAJORVERSION) $(includedir_server)' | cmp -s - $@ || echo '$(MAJORVERSION) $(includedir_server)' > $@
FORCE:
.PHONY: FORCE
# loops over vectors of integers, of which the compiler is to make vector instructions
src/node/node_aggregate.o src/kept/kept_read.o src/vector/vector_filter.o: override CFLAGS += -O3

# Kernels: one image a file of kernels/*.cu, with machine code for every target and PTX for what
# comes after; all of them are embedded in the program.  Without nvcc there are none.
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
CUDA_TARGETS = 75 80 86 89 90
CUDA_NEWEST = $(lastword $(CUDA_TARGETS))
NVCC_FLAGS = -std=c++17 -O3 --threads 2 -Werror all-warnings -Isrc -Ikernels \
	$(foreach t,$(CUDA_TARGETS),-gencode arch=compute_$(t),code=sm_$(t)) \
	-gencode arch=compute_$(CUDA_NEWEST),code=compute_$(CUDA_NEWEST)
cuda_images = $(if $(NVCC),$(patsubst kernels/%.cu,build/kernels/%.fatbin,$(wildcard kernels/*.cu)))
build/kernels/%.fatbin: kernels/%.cu $(wildcard kernels/*.cuh kernels/*.h src/layout/*.h)
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -fatbin -o $@ $<
build/kernels/images.c: $(cuda_images)
	@mkdir -p $(@D)
	@[ -n '$(NVCC)' ] || echo 'nvcc is not here: the device program is built without CUDA'
	@sh kernels/embed_images.sh $(cuda_images) > $@
build/kernels/images.o build/kernels/lab/images.o: %.o: %.c
	$(DEVICE_CC) $(DEVICE_CFLAGS) -c -o $@ $<

device_objs = $(patsubst src/%.c,build/%.o,$(device_srcs)) $(pure_srcs:.c=.o) build/kernels/images.o
$(PROGRAM_DEVICE): $(device_objs)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -o $@ $^ -ldl -lm
# The laboratory, which is never installed: it has the device program's objects and kernels, and its own
lab_images = $(cuda_images) $(if $(NVCC),$(patsubst kernels/%.cu,build/kernels/%.fatbin,$(wildcard kernels/lab/*.cu)))
$(filter build/kernels/lab/%,$(lab_images)): $(wildcard kernels/lab/*.h) src/lab/hjg_cuda_paper_args.h
build/kernels/lab/images.c: $(lab_images)
	@mkdir -p $(@D)
	@sh kernels/embed_images.sh $(lab_images) > $@
lab_objs = $(patsubst src/%.c,build/%.o,$(filter-out src/lab/lab_main.c,$(wildcard src/lab/*.c))) \
	$(filter-out build/device/device_main.o build/kernels/images.o,$(device_objs)) build/kernels/lab/images.o
build/hjoin_gpu_lab: build/lab/lab_main.o $(lab_objs)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -o $@ $^ -ldl -lm
$(patsubst src/%.c,build/%.o,$(wildcard src/lab/lab_coupled_*.c)): $(wildcard kernels/lab/hjg_select.*)
lab: build/hjoin_gpu_lab
.PHONY: lab
# for tests alone, never installed: the device program with faults on request
build/faults/device_fault.o: src/device/device_fault.c $(wildcard src/*/*.h)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -DHJG_FAULTS -c -o $@ $<
build/$(PROGRAM_DEVICE)_faults: $(filter-out build/device/device_fault.o,$(device_objs)) build/faults/device_fault.o
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
ifeq ($(filter-out $(COMMANDS),$(GOALS)),)
check:
	@test/run_check.sh $(PARTS)
check-core:
	@test/core/run_core.sh '$(PGSRC)'
check-deb:
	@test/install/check_deb.sh
check-install:
	@test/install/check_install.sh $(CASES)
deb:
	@NVCC='$(NVCC)' CUDA_TARGETS='$(CUDA_TARGETS)' REVISION='$(REVISION)' src/package/make_deb.sh
demo:
	@test/demo/demo.sh start
demo-shards:
	@CITUS='$(CITUS)' test/demo/demo.sh shards
demo-stop:
	@test/demo/demo.sh stop
dist:
	@src/package/make_dist.sh
bench:
	@test/bench/bench.sh
bench-choice:
	@test/bench/bench.sh choice
bench-gpu:
	@test/bench/bench.sh gpu
bench-planning:
	@test/bench/bench.sh planning
bench-report:
	@PYTHON='$(PYTHON)' test/bench/report.pl
bench-cache:
	@test/bench/bench.sh cache
bench-tpch:
	@test/bench/bench.sh tpch
bench-events:
	@test/bench/bench.sh events
lint:
	@test/run_lint.sh
.PHONY: $(COMMANDS)
endif
print-%:
	@echo '$($*)'
# --- end of commands and tests ---

# ---- engine tests: check-engine, check-engine-tsan, check-engine-valgrind ----
engine_srcs = $(wildcard src/engine/*.c src/coupled/*.c src/model/*.c) $(filter-out %_pg.c,$(wildcard src/arena/*.c))
engine_test_srcs = $(engine_srcs) src/lab/lab_host_stage.c src/lab/lab_coupled_text.c $(wildcard test/engine/*.c)
engine_test_hdrs = $(wildcard src/layout/*.h src/arena/*.h src/engine/*.h src/coupled/*.h src/model/*.h src/lab/hjg_stage.h src/lab/hjg_lab_plan.h kernels/hjg_* test/engine/*.h)
ENGINE_TEST_CFLAGS = -std=gnu11 -g -Wall -Wextra -Werror -pthread -Isrc -I. -Itest/engine

build/test_engine: $(engine_test_srcs) $(engine_test_hdrs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(ENGINE_TEST_CFLAGS) -O3 -o $@ $(engine_test_srcs) -lm
build/test_engine_asan: $(engine_test_srcs) $(engine_test_hdrs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(ENGINE_TEST_CFLAGS) -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $(engine_test_srcs) -lm
build/test_engine_tsan: $(engine_test_srcs) $(engine_test_hdrs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(ENGINE_TEST_CFLAGS) -O1 -fsanitize=thread -o $@ $(engine_test_srcs) -lm

check-engine: build/test_engine build/test_engine_asan
	build/test_engine
	build/test_engine_asan --short
	build/test_engine_asan --short 1795297348	# a crowded table whose last line has few tuples
check-engine-tsan: build/test_engine_tsan
	build/test_engine_tsan --short
check-engine-valgrind: build/test_engine
	valgrind -q --error-exitcode=1 --leak-check=full --fair-sched=try build/test_engine --short
.PHONY: check-engine check-engine-tsan check-engine-valgrind
# ---- end of engine tests ----

# ---- check-arena: unit tests of the arena, plain and under the sanitizers ----
arena_tests = $(notdir $(basename $(wildcard test/arena/test_*.c)))
arena_test_deps = $(filter-out %_pg.c,$(wildcard src/arena/*.c)) src/device/device_chain.c $(wildcard src/arena/*.h src/layout/*.h) src/device/hjg_chain.h test/arena/hjg_test.h
arena_test_build = $(DEVICE_CC) -std=gnu11 -g -Wall -Wextra -Werror -pthread -Isrc -Itest/arena
arena_tests_plain = $(addprefix build/arena/plain/,$(arena_tests))
arena_tests_asan = $(addprefix build/arena/asan/,$(arena_tests))
arena_tests_tsan = $(addprefix build/arena/tsan/,$(arena_tests))
build/arena/plain/%: test/arena/%.c $(arena_test_deps)
	@mkdir -p $(@D)
	$(arena_test_build) -O2 -o $@ $(filter %.c,$^)
build/arena/asan/%: test/arena/%.c $(arena_test_deps)
	@mkdir -p $(@D)
	$(arena_test_build) -O1 -fsanitize=address,undefined -fno-sanitize-recover -o $@ $(filter %.c,$^)
build/arena/tsan/%: test/arena/%.c $(arena_test_deps)
	@mkdir -p $(@D)
	$(arena_test_build) -O1 -fsanitize=thread -o $@ $(filter %.c,$^)
check-arena: $(arena_tests_plain) $(arena_tests_asan) $(arena_tests_tsan)
	@for t in $^; do echo "# $$t"; $$t > $$t.out 2>&1 && ! grep '^not ok' $$t.out || { cat $$t.out; exit 1; }; done
	@echo "all tests of the arena passed"
.PHONY: check-arena
# ---- end of check-arena ----

# cases and checks of the engine tests, which the tests of devices use as well
engine_support = test/engine/test_support.c test/engine/test_cases.c

# ---- check-cuda: the CUDA driver against a libcuda that is emulated on the host ----
build/stub/libcuda.so.1: $(wildcard test/device/stub_*.c test/device/hjg_*.h) $(wildcard kernels/hjg_*.h) $(wildcard src/device/*.h src/layout/*.h) src/lab/hjg_cuda_paper_args.h
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Ikernels -Itest/device -shared -o $@ $(filter %.c,$^)
cuda_test_objs = $(filter-out build/device/device_main.o,$(device_objs))
build/test_cuda: test/device/test_cuda.c $(patsubst %,test/device/cuda_%.c,support faults hostile memory times) test/device/fault_loop.c $(engine_support) test/engine/hjg_test_engine.h test/device/hjg_cuda_support.h test/device/hjg_fault_loop.h test/device/hjg_test_stub.h $(lab_objs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Itest/engine -Itest/device -o $@ $(filter %.c %.o,$^) -ldl -lm
build/test_payload: test/device/test_payload.c test/device/fault_loop.c $(engine_support) test/engine/hjg_test_engine.h test/device/hjg_fault_loop.h test/device/hjg_test_stub.h $(cuda_test_objs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Itest/engine -Itest/device -o $@ $(filter %.c %.o,$^) -ldl -lm
program_test_srcs = test/device/test_program.c test/device/program_cases.c test/device/program_times.c test/device/fault_loop.c test/device/job_support.c $(engine_support)
build/test_program: $(program_test_srcs) test/engine/hjg_test_engine.h test/device/hjg_program_cases.h test/device/hjg_fault_loop.h test/device/hjg_test_stub.h $(cuda_test_objs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Itest/engine -Itest/device -o $@ $(filter %.c %.o,$^) -ldl -lm
build/test_resident: test/device/test_resident.c $(engine_support) test/engine/hjg_test_engine.h $(lab_objs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Itest/engine -o $@ $(filter %.c %.o,$^) -ldl -lm
build/test_host_joins: test/device/test_host_joins.c test/device/sorted_strategy.c test/device/fault_loop.c $(engine_support) test/engine/hjg_test_engine.h test/device/hjg_sorted_strategy.h test/device/hjg_fault_loop.h test/device/hjg_test_stub.h $(lab_objs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Itest/engine -Itest/device -o $@ $(filter %.c %.o,$^) -ldl -lm
build/test_jobs: test/device/test_jobs.c test/device/job_support.c $(engine_support) test/engine/hjg_test_engine.h test/device/hjg_job_support.h test/device/hjg_test_stub.h $(cuda_test_objs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Itest/engine -Itest/device -o $@ $(filter %.c %.o,$^) -ldl -lm
build/test_jobs_tsan: test/device/test_jobs.c test/device/job_support.c $(engine_support) $(filter-out src/device/device_main.c,$(device_srcs)) $(pure_srcs) build/kernels/images.o
	@mkdir -p $(@D)
	$(DEVICE_CC) $(ENGINE_TEST_CFLAGS) -Wno-unused-parameter -Itest/device -O1 -fsanitize=thread -o $@ $^ -ldl -lm
# programs under the sanitizers, on an emulated device with the same
program_srcs = $(patsubst %,src/device/device_%.c,program program_check program_pipeline program_result cuda_program cuda_resident cuda_memory cpu_program cpu_launch cpu_steps cpu_sink cpu_ranks cpu_filter)
build/test_program_asan: $(program_test_srcs) test/device/hjg_program_cases.h build/stub_asan/libcuda.so.1 $(program_srcs) $(filter-out $(patsubst src/%.c,build/%.o,$(program_srcs)),$(cuda_test_objs))
	@mkdir -p $(@D)
	$(DEVICE_CC) $(ENGINE_TEST_CFLAGS) -Wno-unused-parameter -Itest/device -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $(filter %.c %.o,$^) -ldl -lm
build/stub_asan/libcuda.so.1: $(wildcard test/device/stub_*.c test/device/hjg_*.h) $(wildcard kernels/hjg_*.h) $(wildcard src/device/*.h src/layout/*.h)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(ENGINE_TEST_CFLAGS) -Wno-unused-parameter -fPIC -Ikernels -Itest/device -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -shared -o $@ $(filter %.c,$^)
build/test_program_tsan: $(program_test_srcs) test/device/hjg_program_cases.h $(filter-out src/device/device_main.c,$(device_srcs)) $(pure_srcs) build/kernels/images.o
	@mkdir -p $(@D)
	$(DEVICE_CC) $(ENGINE_TEST_CFLAGS) -Wno-unused-parameter -Itest/device -O1 -fsanitize=thread -o $@ $(filter %.c %.o,$^) -ldl -lm
build/test_large: test/device/test_large.c test/device/job_support.c $(engine_support) test/engine/hjg_test_engine.h test/device/hjg_job_support.h $(cuda_test_objs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Itest/engine -Itest/device -o $@ $(filter %.c %.o,$^) -ldl -lm
check-cuda: build/test_large build/test_cuda build/test_payload build/test_program build/test_program_asan build/test_program_tsan build/test_resident build/test_host_joins build/test_jobs build/test_jobs_tsan build/stub/libcuda.so.1
	LD_LIBRARY_PATH=build/stub build/test_cuda
	LD_LIBRARY_PATH=build/stub build/test_payload
	LD_LIBRARY_PATH=build/stub build/test_program
	build/test_program --cpu --short
	LD_LIBRARY_PATH=build/stub_asan build/test_program_asan --hostile
	build/test_program_asan --cpu --hostile
	TSAN_OPTIONS=halt_on_error=1 build/test_program_tsan --cpu --brief
	LD_LIBRARY_PATH=build/stub build/test_resident
	LD_LIBRARY_PATH=build/stub build/test_host_joins
	LD_LIBRARY_PATH=build/stub build/test_jobs
	LD_LIBRARY_PATH=build/stub TSAN_OPTIONS=halt_on_error=1 build/test_jobs_tsan --streams
	LD_LIBRARY_PATH=build/stub build/test_large 1500000
.PHONY: check-cuda
# ---- end of check-cuda ----

# ---- check-lab: the joins of the literature and the product's, by their kernels: on the host, and on a GPU where there is one ----
# kernels compiled for the host: CUDA's words are those of test/device/hjg_emulated_cuda.h
DEVICE_CXX ?= g++
emulated_cc = $(patsubst kernels/%.cu,build/emulated/%.cc,$(wildcard kernels/*.cu kernels/lab/*.cu))
build/emulated/%.cc: kernels/%.cu $(wildcard kernels/*.h kernels/lab/*.h src/layout/*.h test/device/hjg_emulated_*.h) src/lab/hjg_cuda_paper_args.h
	@mkdir -p $(@D)
	@test/device/emulate_kernels.sh '$(DEVICE_CXX)' $< $@
build/emulated/%.o: build/emulated/%.cc
	$(DEVICE_CXX) -std=c++17 -O2 -g -w -fPIC $(EMULATED_FLAGS) -c -o $@ $<
EMULATED_FLAGS = -Isrc -I. -Ibuild/emulated/headers -Itest/device -include test/device/hjg_emulated_cuda.h
build/emulated/libcuda.so.1: test/device/stub_libcuda.c test/device/emulated_threads.c $(wildcard test/device/hjg_*.h) $(emulated_cc:.cc=.o)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Ikernels -Itest/device -shared -o $@ $(filter %.c %.o,$^) -lm
check-lab: build/test_resident build/hjoin_gpu_lab hjoin_gpu_device $(if $(shell command -v $(DEVICE_CXX)),build/emulated/libcuda.so.1)
	@test/device/check_lab.sh
.PHONY: check-lab
# ---- end of check-lab ----

# ---- the driver that goes wild in test/t/020_wild_driver.pl, and faults of the system's calls for 021_faults.pl ----
build/wild.so: test/wild/wild.c $(wildcard src/layout/*.h)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -shared -o $@ $< -ldl
build/shim.so: test/fault/shim.c
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -U_FORTIFY_SOURCE -shared -o $@ $< -ldl
# ---- end of the wild driver and of faults ----

# ---- check-opencl: the coupled engine on an OpenCL device, if there is one ----
build/test_opencl: test/device/test_opencl.c $(engine_support) test/engine/test_coupled.c $(wildcard test/engine/*.h) $(cuda_test_objs)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Itest/engine -o $@ $(filter %.c %.o,$^) -ldl -lm
check-opencl: build/test_opencl build/hjoin_gpu_lab hjoin_gpu_device
	build/test_opencl
	build/hjoin_gpu_lab threads --figures --halves --min-log=12 --max-log=12 --reps=1 >/dev/null
	build/hjoin_gpu_lab threads --figures='001, figure' --key-width=8 --halves --min-log=12 --max-log=12 --reps=1 >/dev/null
	build/hjoin_gpu_lab threads --plans --reps=1 >/dev/null
	test/device/check_selection.sh
	device=$$(./hjoin_gpu_device --list | grep -v 'not usable' | grep -q '^opencl:0' && echo opencl:0 || echo threads) && \
		build/hjoin_gpu_lab $$device --model=8 --each --min-log=14 --max-log=14 >build/model.out || { tail -5 build/model.out; exit 1; } && \
		build/hjoin_gpu_lab $$device --copies --model=8 --each --min-log=14 --max-log=14 >build/model.out || { tail -5 build/model.out; exit 1; } && \
		build/hjoin_gpu_lab $$device --rows --min-log=16 --max-log=16
.PHONY: check-opencl
# ---- end of check-opencl ----

# ---- vector tests ----
vector_tests = $(notdir $(basename $(wildcard test/vector/test_*.c)))
vector_test_deps = $(filter-out %_pg.c,$(wildcard src/vector/*.c)) $(wildcard src/vector/*.h) test/vector/hjg_test_vector.h
build/vector/plain/%: test/vector/%.c $(vector_test_deps)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -Itest/vector -o $@ $(filter %.c,$^)
build/vector/asan/%: test/vector/%.c $(vector_test_deps)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(ENGINE_TEST_CFLAGS) -Itest/vector -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $(filter %.c,$^)
check-vector: $(foreach t,$(vector_tests),build/vector/plain/$(t) build/vector/asan/$(t))
	for t in $^; do $$t || exit 1; done
.PHONY: check-vector
# ---- end of vector tests ----

# ---- model tests ----
build/test_%: test/model/test_%.c $(wildcard src/model/*.[ch] test/model/*.h)
	@mkdir -p $(@D)
	$(DEVICE_CC) $(DEVICE_CFLAGS) -o $@ $(filter %.c,$^) -lm
build/test_coupled_model: $(wildcard src/coupled/coupled_model*.c src/coupled/hjg_*_model.h)
check-model: build/test_model build/test_coupled_model build/test_cuda_model
	build/test_model
	build/test_coupled_model
	build/test_cuda_model
.PHONY: check-model
# ---- end of model tests ----
