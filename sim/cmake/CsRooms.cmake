# The rooms (rooms.txt) and how one is built.
#   CS_ROOMS                 names, lowest first
#   CS_ROOM_DIR_<room>       its folder
#   CS_ROOM_KNOWS_<room>     the rooms it may depend on
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/rooms.txt" lines REGEX "^[a-z]")
foreach(line IN LISTS lines)
    string(REGEX REPLACE " +" ";" words "${line}")
    list(POP_FRONT words room dir)
    list(TRANSFORM words REPLACE "/.*" "")
    list(APPEND CS_ROOMS "${room}")
    set(CS_ROOM_DIR_${room} "${dir}")
    set(CS_ROOM_KNOWS_${room} "${words}")
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             "${CMAKE_CURRENT_LIST_DIR}/rooms.txt" "${CMAKE_CURRENT_LIST_DIR}/packages.txt")

# cs_absent_rooms(<result> <room>...): those that have no target (yet), so that what needs them can wait.
function(cs_absent_rooms result)
    set(absent "")
    foreach(room IN LISTS ARGN)
        if(NOT TARGET cs_${room})
            list(APPEND absent "${room}")
        endif()
    endforeach()
    set(${result} "${absent}" PARENT_SCOPE)
endfunction()

# cs_add_room(<room>
#     SOURCES src/a.c src/b.c        relative to the room's folder, listed one by one
#     DEPS base platforms            rooms whose public headers it includes; rooms.txt says which are allowed
#     PUBLIC_PKGS jansson            pkg-config modules whose headers the room's own public headers include
#     PRIVATE_PKGS yaml-0.1)         pkg-config modules used in src/ only
# Makes the static library cs_<room>, alias cs::<room>. include/ is public, src/ private.
function(cs_add_room room)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPS;PUBLIC_PKGS;PRIVATE_PKGS")
    if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SOURCES)
        message(FATAL_ERROR "cs_add_room(${room}): needs SOURCES, unknown: '${ARG_UNPARSED_ARGUMENTS}'")
    endif()
    foreach(dep IN LISTS ARG_DEPS)
        if(NOT dep IN_LIST CS_ROOM_KNOWS_${room})
            message(FATAL_ERROR "room '${room}' must not know '${dep}' (sim/cmake/rooms.txt)")
        endif()
    endforeach()
    cs_absent_rooms(absent ${ARG_DEPS})
    if(absent)
        message(STATUS "room ${room}: waits for ${absent}")
        return()
    endif()
    add_library(cs_${room} STATIC ${ARG_SOURCES})
    add_library(cs::${room} ALIAS cs_${room})
    target_include_directories(cs_${room} PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/include"
                                          PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
    list(TRANSFORM ARG_DEPS PREPEND "cs::")
    target_link_libraries(cs_${room} PUBLIC ${ARG_DEPS} PRIVATE cs::options cs::hardening)
    cs_link_pkgs(cs_${room} PUBLIC ${ARG_PUBLIC_PKGS})
    cs_link_pkgs(cs_${room} PRIVATE ${ARG_PRIVATE_PKGS})
endfunction()
