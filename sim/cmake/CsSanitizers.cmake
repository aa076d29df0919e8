# CS_SANITIZER and CS_BUILD_FUZZERS.
if(CS_SANITIZER AND NOT CS_SANITIZER MATCHES "^(address,undefined|address|undefined|thread)$")
    message(FATAL_ERROR "CS_SANITIZER is '${CS_SANITIZER}', but should be empty, 'address,undefined', "
                        "'address', 'undefined' or 'thread'")
endif()
if(CS_SANITIZER AND CS_COVERAGE)
    message(FATAL_ERROR "CS_SANITIZER and CS_COVERAGE exclude each other: use two build directories")
endif()

if(CS_SANITIZER)
    target_compile_options(cs_options INTERFACE
        -fsanitize=${CS_SANITIZER} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_definitions(cs_options INTERFACE CS_SANITIZER=1)
    target_link_options(cs_options INTERFACE -fsanitize=${CS_SANITIZER})
endif()

if(CS_BUILD_FUZZERS)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang" OR NOT CS_SANITIZER MATCHES "address")
        message(FATAL_ERROR "CS_BUILD_FUZZERS needs clang and a CS_SANITIZER with 'address' "
                            "(`cmake --preset fuzz`); this is ${CMAKE_C_COMPILER_ID}, '${CS_SANITIZER}'")
    endif()
    # The rooms carry the coverage counters that steer the fuzzer; only its own program has its main().
    target_compile_options(cs_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
