# Warnings, sanitizers and the compiler cache, away from the targets.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                    -Wnon-virtual-dtor -Woverloaded-virtual)
# GCC 12 takes `"x" + string` for an overlapping copy when it optimises (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
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
  set(CMAKE_CXX_COMPILER_LAUNCHER ${RESTOW_CCACHE})
endif()
