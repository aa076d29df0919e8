# Third-party libraries, by pkg-config module. Which Debian package holds which module: packages.txt.
find_package(PkgConfig REQUIRED)

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/packages.txt" lines REGEX "^[a-z]")
foreach(line IN LISTS lines)
    string(REGEX MATCH "^([^ ]+) +([^ ]+)" _ "${line}")
    if(NOT CMAKE_MATCH_2 STREQUAL "-")
        set(CS_DEBIAN_${CMAKE_MATCH_2} "${CMAKE_MATCH_1}")
    endif()
endforeach()

# cs_has_pkg(<result> <module>): whether an optional library is on this machine, so that a room can leave out
# what needs it.
function(cs_has_pkg result module)
    string(MAKE_C_IDENTIFIER "cs_${module}" prefix)
    pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL "${module}")
    set(${result} ${${prefix}_FOUND} PARENT_SCOPE)
endfunction()

# cs_link_pkgs(<target> PUBLIC|PRIVATE <module>...): link libraries that must be there. Their headers are
# system headers: our warnings do not apply to them.
function(cs_link_pkgs target scope)
    foreach(module IN LISTS ARGN)
        cs_has_pkg(found "${module}")
        if(NOT found)
            message(FATAL_ERROR "${target} needs '${module}': install the Debian package "
                                "'${CS_DEBIAN_${module}}' or run `sh sim/install.sh`")
        endif()
        string(MAKE_C_IDENTIFIER "cs_${module}" prefix)
        target_link_libraries(${target} ${scope} PkgConfig::${prefix})
        set_property(GLOBAL APPEND PROPERTY CS_USED_PKGS "${module} ${${prefix}_VERSION}")
    endforeach()
endfunction()
