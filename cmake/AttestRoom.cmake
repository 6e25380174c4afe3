# attest_add_room(NAME [SOURCES file...] [TOGETHER file...] [LOOPS file...] [PUBLIC_LIBS target...] [PRIVATE_LIBS target...])
#
# A room of the house: the static library attest_NAME, alias attest::NAME (attest::NAME_room where the name is that of a library for users). Includes are written
# from the repository root ("core/problem.hpp") or from include/ (<attest/plugin.h>). SOURCES are
# compiled one by one; those of TOGETHER see attest_compile_together(), and so do LOOPS, the inner
# loops, which are worth more than what -O2 makes of them, in attest_NAME_loops.
function(attest_add_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;TOGETHER;LOOPS;PUBLIC_LIBS;PRIVATE_LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT (arg_SOURCES OR arg_TOGETHER))
    message(FATAL_ERROR "attest_add_room(${name}): SOURCES is needed, '${arg_UNPARSED_ARGUMENTS}' is not understood")
  endif()
  add_library(attest_${name} STATIC ${arg_SOURCES})
  attest_compile_together(attest_${name} ${arg_TOGETHER})
  if(name STREQUAL "generators")
    add_library(attest::generators_room ALIAS attest_generators)
  else()
    add_library(attest::${name} ALIAS attest_${name})
  endif()
  attest_room_needs(attest_${name} "${arg_PUBLIC_LIBS}" "${arg_PRIVATE_LIBS}")
  if(arg_LOOPS)
    add_library(attest_${name}_loops OBJECT)
    attest_compile_together(attest_${name}_loops ${arg_LOOPS})
    attest_room_needs(attest_${name}_loops "${arg_PUBLIC_LIBS}" "${arg_PRIVATE_LIBS}")
    target_compile_options(attest_${name}_loops PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3>)
    target_sources(attest_${name} PRIVATE $<TARGET_OBJECTS:attest_${name}_loops>)
  endif()
endfunction()

function(attest_room_needs target public private)
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  # No other library takes the place of a room's functions, which may therefore be inlined where they are defined.
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  target_link_libraries(${target} PUBLIC ${public} PRIVATE ${private})
endfunction()

# attest_compile_together(TARGET file...)
#
# Further sources of TARGET, of which a release compiles up to forty at a time, so that headers
# are parsed and templates instantiated once for all of them (ATTEST_UNITY). No two may therefore
# give one name to different things, in anonymous namespaces neither. TARGET's property ATTEST_TOGETHER lists them.
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

# attest_cold(TARGET...): what no campaign waits for. A release compiles it in half the time: GCC with -Og, which inlines little
# but what is tiny or called once. A room's LOOPS stay as they are.
function(attest_cold)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:$<IF:$<CXX_COMPILER_ID:GNU>,-Og,-O1>>)
  endforeach()
endfunction()
