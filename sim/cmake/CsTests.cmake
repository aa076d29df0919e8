# Tests. Everything runs in the C locale, in UTC, with a time-out; exit status 77 means skipped.
cs_has_pkg(has_check check)
option(CS_BUILD_TESTS "Build the tests (needs check)" ${has_check})

# The time-out ends what hangs; it is far above what a busy machine needs. Check's own, of four seconds a case,
# is off.
set(CS_TEST_TIMEOUT_S 300)
set(CS_TEST_ENV LC_ALL=C TZ=UTC CK_DEFAULT_TIMEOUT=0)
if(CS_SANITIZER)
    set(CS_TEST_TIMEOUT_S 900)
    # AddressSanitizer follows SimGrid's actors only when they are threads; the clock is the same.
    list(APPEND CS_TEST_ENV
         CLUSTERSIM_SIMGRID_CFG=contexts/factory:thread
         ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
         UBSAN_OPTIONS=print_stacktrace=1)
endif()

# cs_add_test(<name> COMMAND <command> [<arg>...] LABELS <label>... [ENV <NAME=value>...] [TIMEOUT <s>])
# Any test; the functions below use it. A TIMEOUT below the common one counts as that one.
function(cs_add_test name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "COMMAND;LABELS;ENV")
    if(NOT ARG_TIMEOUT OR ARG_TIMEOUT LESS CS_TEST_TIMEOUT_S)
        set(ARG_TIMEOUT ${CS_TEST_TIMEOUT_S})
    endif()
    add_test(NAME ${name} COMMAND ${ARG_COMMAND})
    set_tests_properties(${name} PROPERTIES
        LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
        ENVIRONMENT "${CS_TEST_ENV};${ARG_ENV}")
endfunction()

# cs_test_executable(<target> SOURCES <source>... DEPS <room>...): a test program, not yet a test. Sources are
# relative to the calling folder or to the repository. `built` is set to whether its rooms are there.
function(cs_test_executable target)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPS")
    cs_absent_rooms(absent ${ARG_DEPS})
    if(absent)
        message(STATUS "${target}: waits for ${absent}")
        set(built FALSE PARENT_SCOPE)
        return()
    endif()
    set(sources "")
    foreach(source IN LISTS ARG_SOURCES)
        if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
            list(APPEND sources "${source}")
        else()
            list(APPEND sources "${PROJECT_SOURCE_DIR}/${source}")
        endif()
    endforeach()
    list(TRANSFORM ARG_DEPS PREPEND "cs::")
    add_executable(${target} ${sources})
    target_link_libraries(${target} PRIVATE ${ARG_DEPS} cs::options)
    set(built TRUE PARENT_SCOPE)
endfunction()

# cs_add_unit_test(<name> SOURCES tests/unit/test_x.c DEPS base [PKGS jansson] LABELS unit)
# A Check program that ends in CS_TEST_MAIN (tests/unit/cs_test.h); one per module. It sees the source tree
# as CS_TEST_SOURCE_DIR, for shipped data and tests/data.
function(cs_add_unit_test name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "SOURCES;DEPS;PKGS;LABELS")
    if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SOURCES OR NOT ARG_LABELS)
        message(FATAL_ERROR "cs_add_unit_test(${name}): needs SOURCES and LABELS, "
                            "unknown: '${ARG_UNPARSED_ARGUMENTS}'")
    endif()
    cs_test_executable(${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS})
    if(built)
        target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/unit")
        target_compile_definitions(${name} PRIVATE CS_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
        # Check's macros hand literals to printf-like functions with no argument of their own.
        target_compile_options(${name} PRIVATE
            $<$<C_COMPILER_ID:GNU>:-Wno-format-extra-args>
            $<$<C_COMPILER_ID:Clang>:-Wno-gnu-zero-variadic-macro-arguments>)
        cs_link_pkgs(${name} PRIVATE check ${ARG_PKGS})
        cs_add_test(${name} COMMAND ${name} LABELS ${ARG_LABELS} TIMEOUT ${ARG_TIMEOUT})
    endif()
endfunction()

# cs_add_cli_test(<case> [TIMEOUT <s>]): run the program as tests/cli/<case>/ says (tests/cli/run_case.sh).
function(cs_add_cli_test case)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "")
    cs_add_test(cli.${case} LABELS cli TIMEOUT ${ARG_TIMEOUT}
        COMMAND sh "${PROJECT_SOURCE_DIR}/tests/cli/run_case.sh" "$<TARGET_FILE:clustersim>"
                "${PROJECT_SOURCE_DIR}/tests/cli/${case}")
endfunction()

# cs_add_fuzzer(<name> SOURCES fuzz_x.c DEPS base CORPUS corpus/x [DICT x.dict])
# One LLVMFuzzerTestOneInput (tests/fuzz/fuzz.h). Always: a plain program that runs the corpus and seeded
# changes of it in ctest, as many every time. With
# CS_BUILD_FUZZERS also fuzz_<name> for libFuzzer, which ctest runs for a few seconds from the same corpus.
function(cs_add_fuzzer name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "CORPUS;DICT" "SOURCES;DEPS")
    if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SOURCES OR NOT ARG_CORPUS)
        message(FATAL_ERROR "cs_add_fuzzer(${name}): needs SOURCES and CORPUS, "
                            "unknown: '${ARG_UNPARSED_ARGUMENTS}'")
    endif()
    set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/${ARG_CORPUS}")
    cs_test_executable(fuzz_${name}_corpus SOURCES ${ARG_SOURCES} tests/fuzz/driver.c DEPS ${ARG_DEPS})
    if(NOT built)
        return()
    endif()
    target_include_directories(fuzz_${name}_corpus PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz")
    target_compile_definitions(fuzz_${name}_corpus PRIVATE CS_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    cs_add_test(fuzz.${name}.corpus COMMAND fuzz_${name}_corpus 2000 "${corpus}" LABELS fuzz TIMEOUT 300)
    if(CS_BUILD_FUZZERS)
        cs_test_executable(fuzz_${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS})
        target_include_directories(fuzz_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz")
        target_compile_definitions(fuzz_${name} PRIVATE CS_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        set(dict "")
        if(ARG_DICT)
            set(dict "-dict=${CMAKE_CURRENT_SOURCE_DIR}/${ARG_DICT}")
        endif()
        set(found "${CMAKE_CURRENT_BINARY_DIR}/found/${name}") # new inputs; the corpus is only read
        file(MAKE_DIRECTORY "${found}")
        cs_add_test(fuzz.${name}.search LABELS fuzz
            COMMAND fuzz_${name} -max_total_time=15 -seed=1 -timeout=10 -rss_limit_mb=1024
                    -print_final_stats=1 "-artifact_prefix=${found}/crash-" ${dict} "${found}" "${corpus}")
    endif()
endfunction()

# cs_add_bench(<name> SOURCES tests/bench/bench_x.c DEPS base engine [PKGS simgrid] [WRAP function...])
# A benchmark: prints its figures, is no test. Built with `cmake --build build --target bench`, which runs none.
function(cs_add_bench name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPS;PKGS;WRAP")
    cs_test_executable(${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS})
    if(built)
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
        foreach(function IN LISTS ARG_WRAP) # calls of it go to __wrap_<function> of the benchmark
            target_link_options(${name} PRIVATE "LINKER:--wrap=${function}")
        endforeach()
        target_compile_definitions(${name} PRIVATE CS_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
        cs_link_pkgs(${name} PRIVATE ${ARG_PKGS})
        if(NOT TARGET bench)
            add_custom_target(bench)
        endif()
        add_dependencies(bench ${name})
    endif()
endfunction()
