# Warnings, sanitizers and the compiler cache, away from the targets.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                    -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False positives on std::string's operator+ (GCC bug 105651).
  add_compile_options(-Wno-restrict)
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
  # Precompiled headers need ccache to look at what they hold rather than at their times.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${RESTOW_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-fpch-preprocess)
  endif()
endif()

# Half of a file's compile time is the standard library's and fmt's headers: they are compiled once
# and shared by all targets.
function(restow_precompile target)
  if(TARGET restow_precompiled)
    target_precompile_headers(${target} REUSE_FROM restow_precompiled)
    target_link_libraries(${target} PRIVATE fmt::fmt)
    return()
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cc "")
  add_library(restow_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(restow_precompiled PRIVATE fmt::fmt)
  target_precompile_headers(restow_precompiled PRIVATE <fmt/format.h> <algorithm> <array> <cmath>
    <cstdint> <functional> <map> <memory> <optional> <set> <string> <string_view> <tuple> <utility>
    <vector>)
  restow_precompile(${target})
endfunction()
