# attest_add_room(NAME SOURCES file... [PUBLIC_LIBS target...] [PRIVATE_LIBS target...])
#
# A room of the house: the static library attest_NAME, alias attest::NAME. Includes are written
# from the repository root ("core/problem.hpp") or from include/ (<attest/plugin.h>).
function(attest_add_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC_LIBS;PRIVATE_LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "attest_add_room(${name}): SOURCES is needed, '${arg_UNPARSED_ARGUMENTS}' is not understood")
  endif()
  add_library(attest_${name} STATIC ${arg_SOURCES})
  add_library(attest::${name} ALIAS attest_${name})
  target_include_directories(attest_${name} PUBLIC "${PROJECT_SOURCE_DIR}"
                                                   "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(attest_${name} PUBLIC ${arg_PUBLIC_LIBS} PRIVATE ${arg_PRIVATE_LIBS})
endfunction()
