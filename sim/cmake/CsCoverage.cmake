# CS_COVERAGE: gcc's counters and a target `coverage` that sums up the tests run before it.
if(CS_COVERAGE)
    target_compile_options(cs_options INTERFACE --coverage -fprofile-update=atomic)
    target_compile_definitions(cs_options INTERFACE CS_COVERAGE=1) # for children that end with _exit
    target_link_options(cs_options INTERFACE --coverage)
    find_program(CS_GCOVR gcovr)
    mark_as_advanced(CS_GCOVR)
    if(CS_GCOVR)
        add_custom_target(coverage
            COMMAND "${CS_GCOVR}" --root "${PROJECT_SOURCE_DIR}" --object-directory "${PROJECT_BINARY_DIR}"
                    --exclude "${PROJECT_SOURCE_DIR}/tests/" --exclude-unreachable-branches
                    --print-summary --sort-percentage
            USES_TERMINAL VERBATIM
            COMMENT "Coverage of the tests run so far")
    else()
        message(STATUS "no gcovr: the counters are there, the target `coverage` is not")
    endif()
endif()
