# The program, and the data that is shipped with it.
set(CS_INSTALL_DATA_DIR "${CMAKE_INSTALL_DATADIR}/clustersim")

# cs_add_program(<name> SOURCES src/main.c DEPS cli [PRIVATE_PKGS ...])
# An executable of room cli, placed at <build>/<name> and installed. It and cs_cli (nothing else) see
#   CS_SOURCE_DATA_DIR   this source tree: where shipped data is when the program runs from a build
#   CS_INSTALL_DATA_DIR  the installed data, relative to the folder of the executable
#   CS_VERSION, CS_GIT_DESCRIBE ("" outside git), CS_BUILD_INFO (compiler and build type)
# Shipped data is laid out the same way in both places: platforms/, workloads/models/, strategies/studies/.
function(cs_add_program name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPS;PRIVATE_PKGS")
    if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SOURCES)
        message(FATAL_ERROR "cs_add_program(${name}): needs SOURCES, unknown: '${ARG_UNPARSED_ARGUMENTS}'")
    endif()
    cs_absent_rooms(absent ${ARG_DEPS})
    if(absent)
        message(STATUS "program ${name}: waits for ${absent}")
        return()
    endif()
    add_executable(${name} ${ARG_SOURCES})
    list(TRANSFORM ARG_DEPS PREPEND "cs::")
    target_link_libraries(${name} PRIVATE ${ARG_DEPS} cs::options cs::hardening)
    cs_link_pkgs(${name} PRIVATE ${ARG_PRIVATE_PKGS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    install(TARGETS ${name} RUNTIME)

    cs_git_describe(describe)
    file(RELATIVE_PATH data "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_DATADIR}/clustersim")
    set(compiler "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}")
    foreach(target IN ITEMS ${name} cs_cli)
        target_compile_definitions(${target} PRIVATE
            CS_SOURCE_DATA_DIR="${PROJECT_SOURCE_DIR}" CS_INSTALL_DATA_DIR="${data}"
            CS_VERSION="${PROJECT_VERSION}" CS_GIT_DESCRIBE="${describe}"
            CS_BUILD_INFO="${compiler}, ${CMAKE_BUILD_TYPE}")
    endforeach()
endfunction()

# cs_git_describe(<result>): the commit being built. The version is CMakeLists.txt's; git only adds to it.
function(cs_git_describe result)
    execute_process(COMMAND git -C "${PROJECT_SOURCE_DIR}" describe --always --abbrev=10
                    OUTPUT_VARIABLE text ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(${result} "${text}" PARENT_SCOPE)
    if(EXISTS "${PROJECT_SOURCE_DIR}/.git/logs/HEAD") # a new commit configures again, so that it stays true
        set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                     "${PROJECT_SOURCE_DIR}/.git/logs/HEAD")
    endif()
endfunction()

# cs_install_data(<folder>...): install what the program reads at run time, not code or documents.
function(cs_install_data)
    foreach(dir IN LISTS ARGN)
        if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${dir}")
            install(DIRECTORY "${dir}" DESTINATION "${CS_INSTALL_DATA_DIR}"
                    FILES_MATCHING PATTERN "*.yaml" PATTERN "*.xml" PATTERN "*.json" PATTERN "*.csv"
                    PATTERN "include" EXCLUDE PATTERN "src" EXCLUDE)
        endif()
    endforeach()
    install(FILES LICENSE TYPE DOC)
endfunction()
