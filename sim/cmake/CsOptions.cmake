# What every target of ours is compiled with. cs_options = language and warnings, cs_hardening = defences of
# optimised builds. Both reach a target through target_link_libraries; CMAKE_C_FLAGS stays the user's.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(cs_options INTERFACE)
add_library(cs::options ALIAS cs_options)
target_compile_definitions(cs_options INTERFACE _POSIX_C_SOURCE=200809L)
target_compile_options(cs_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wdouble-promotion -Wnull-dereference -Wswitch-enum
    $<$<BOOL:${CS_WERROR}>:-Werror>
    # Results must not depend on whether the compiler fuses a multiplication with an addition.
    -ffp-contract=off
    # __FILE__ in messages is the path inside the repository, wherever it was built.
    "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
target_link_libraries(cs_options INTERFACE m)

add_library(cs_hardening INTERFACE)
add_library(cs::hardening ALIAS cs_hardening)
if(NOT CS_SANITIZER AND NOT CS_COVERAGE)
    target_compile_options(cs_hardening INTERFACE -fstack-protector-strong)
    target_compile_definitions(cs_hardening INTERFACE
        $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:_FORTIFY_SOURCE=2>)
    target_link_options(cs_hardening INTERFACE -Wl,-z,relro,-z,now)
endif()

find_program(CS_CCACHE ccache)
mark_as_advanced(CS_CCACHE)
if(CS_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER "${CS_CCACHE}")
endif()
