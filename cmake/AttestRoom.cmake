# attest_add_room(NAME [SOURCES file...] [TOGETHER file...] [PUBLIC_LIBS target...] [PRIVATE_LIBS target...])
#
# A room of the house: the static library attest_NAME, alias attest::NAME. Includes are written
# from the repository root ("core/problem.hpp") or from include/ (<attest/plugin.h>). SOURCES are
# compiled one by one; those of TOGETHER see attest_compile_together().
function(attest_add_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;TOGETHER;PUBLIC_LIBS;PRIVATE_LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT (arg_SOURCES OR arg_TOGETHER))
    message(FATAL_ERROR "attest_add_room(${name}): SOURCES is needed, '${arg_UNPARSED_ARGUMENTS}' is not understood")
  endif()
  add_library(attest_${name} STATIC ${arg_SOURCES})
  attest_compile_together(attest_${name} ${arg_TOGETHER})
  add_library(attest::${name} ALIAS attest_${name})
  target_include_directories(attest_${name} PUBLIC "${PROJECT_SOURCE_DIR}"
                                                   "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(attest_${name} PUBLIC ${arg_PUBLIC_LIBS} PRIVATE ${arg_PRIVATE_LIBS})
endfunction()

# attest_compile_together(TARGET file...)
#
# Further sources of TARGET, of which a release compiles up to forty at a time, so that headers
# are parsed and templates instantiated once for all of them (ATTEST_UNITY). No two may therefore
# give one name to different things, in anonymous namespaces neither. Not for inner loops, which are
# compiled as they are measured. TARGET's property ATTEST_TOGETHER lists them.
function(attest_compile_together target)
  get_target_property(alone ${target} SOURCES)
  # Those that include the heaviest header share as few parts as can be.
  set(heavy "")
  set(light "")
  foreach(file IN LISTS ARGN)
    file(STRINGS "${file}" includes REGEX "#include <nlohmann/json.hpp>" LIMIT_COUNT 1)
    if(includes)
      list(APPEND heavy "${file}")
    else()
      list(APPEND light "${file}")
    endif()
  endforeach()
  target_sources(${target} PRIVATE ${heavy} ${light})
  set_target_properties(${target} PROPERTIES ATTEST_TOGETHER "${ARGN}")
  if(ATTEST_UNITY AND ARGN)
    list(LENGTH ARGN files)
    math(EXPR parts "(${files} + 39) / 40")
    math(EXPR size "(${files} + ${parts} - 1) / ${parts}")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE ${size})
    if(alone)
      set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endif()
endfunction()

# attest_cold(TARGET... [BUT file...]): what no campaign waits for. A release compiles it with -O1, in two thirds of the time,
# and with -O3 the files named after BUT.
function(attest_cold)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "BUT")
  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
  if(arg_BUT)
    set_property(SOURCE ${arg_BUT} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  endif()
endfunction()
