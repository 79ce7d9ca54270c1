# Warnings, sanitizers and the compiler cache, away from the targets.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                    "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Woverloaded-virtual>")
# GCC 12 takes `"x" + string` for an overlapping copy when it optimises, and growth of small vectors
# for an overflow (GCC bugs 105651, 105329). The sanitizer builds look for the real ones.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
                      -Wno-array-bounds)
endif()
option(RESTOW_WERROR "Treat warnings as errors" OFF)
if(RESTOW_WERROR)
  add_compile_options(-Werror)
endif()

set(RESTOW_SANITIZE "" CACHE STRING "address;undefined or thread")
foreach(sanitizer IN LISTS RESTOW_SANITIZE)
  add_compile_options(-fsanitize=${sanitizer} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${sanitizer})
endforeach()

# The planner gives the same bytes on every machine of one architecture: no contraction into fused
# multiply-adds that another compiler would choose differently.
add_compile_options(-ffp-contract=off)

find_program(RESTOW_CCACHE ccache)
if(RESTOW_CCACHE)
  # Precompiled headers need ccache to look at what they hold rather than at their times. Paths are
  # taken relative to the build folder, so that one preset finds what another has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_CURRENT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${RESTOW_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-fpch-preprocess)
  endif()
endif()

# What PyPI cannot bring along with `pip install .`, and what a build by hand may lack.
function(restow_missing package)
  message(FATAL_ERROR "${package} is missing. Restow compiles against headers of the system; on "
    "Debian: apt-get install g++ libfmt-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev "
    "(deps/debian.txt, group plan)")
endfunction()

# Half of a file's compile time is the headers of the standard library, fmt and GoogleTest: they are
# compiled once and shared. restow_precompile(TARGET) for code, restow_precompile(TARGET test).
function(restow_precompile target)
  set(shared restow_precompiled)
  set(libraries fmt::fmt)
  set(headers <fmt/format.h> <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory>
    <optional> <set> <string> <string_view> <tuple> <utility> <vector>)
  if("test" IN_LIST ARGN)
    string(APPEND shared _test)
    list(APPEND libraries GTest::gmock GTest::gtest)
    list(APPEND headers <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  if(NOT TARGET ${shared})
    file(WRITE ${CMAKE_BINARY_DIR}/${shared}.cc "")
    add_library(${shared} OBJECT ${CMAKE_BINARY_DIR}/${shared}.cc)
    target_link_libraries(${shared} PRIVATE ${libraries})
    target_precompile_headers(${shared} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${shared})
  # Shared headers want equal code models: programs are compiled as the libraries are.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_link_libraries(${target} PRIVATE ${libraries})
endfunction()

# -O3 takes longer to compile than it saves: the hot loops are a few adds over tables.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
