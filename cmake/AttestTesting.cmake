# attest_add_property_tests(TARGET [SUBJECT name...] [OP operation] [PROPERTIES glob...] [CASES n] [CORPUS folder]
#                           [LABELS label...] [TIMEOUT seconds] [TEST_PREFIX text] [PYTHON exe] [ARGUMENTS word...])
#
# One CTest test per property of attest, NAME.PROPERTY, and NAME.corpus, which replays stored reproducers. docs/cpp.md
# has examples.
#
# TARGET       what is under test: a MODULE or SHARED library of this project that exports attest_plugin; an executable
#              that speaks docs/worker.md; the path of a plug-in or a script (relative to the source folder, else to the
#              binary folder); or a subject that attest has itself, such as onnxruntime:Attention
# SUBJECT      which of the subjects in it, each with tests of its own; none: it has one, and NAME is the target's
# OP           which operation of the subject is tested: attention (the default), layer_norm or mha
# PROPERTIES   names or globs of `attest list properties --op OP`; none: all. One that matches nothing makes a test that fails
# CASES        problems that each test draws (1000)
# CORPUS       a folder of reproducers of one SUBJECT (default: corpus/NAME in the source folder, if that is there)
# LABELS       CTest labels beside `attest`
# TIMEOUT      seconds for each test (CTest's default)
# TEST_PREFIX  goes before each NAME, where two targets have a subject of one name
# PYTHON       the interpreter for a script or an adapter
# ARGUMENTS    further words for `attest check`: --policy f16, --assume lk<=512
#
# A test runs `attest check ... --property PROPERTY --seed 1 --cases n --jobs 1`: the same every time. It fails unless attest
# ends with status 0; where the property applies to no problem that was drawn, CTest reports it as skipped, and attest below
# CTest's summary why.
#
# The tests are made when ctest starts, from the properties that the attest program then has.
define_property(GLOBAL PROPERTY ATTEST_TEST_OWNERS BRIEF_DOCS "NAME=TARGET of each call")

function(attest_add_property_tests target)
  set(one_value OP CASES CORPUS TIMEOUT TEST_PREFIX PYTHON)
  set(many_values SUBJECT PROPERTIES LABELS ARGUMENTS)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "${one_value}" "${many_values}")
  set(call "attest_add_property_tests(${target})")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${call}: '${arg_UNPARSED_ARGUMENTS}' is not understood; there are SUBJECT, ${many_values}, ${one_value}")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${call}: ${arg_KEYWORDS_MISSING_VALUES} needs a value")
  endif()
  if(NOT DEFINED arg_CASES)
    set(arg_CASES 1000)
  endif()
  if(NOT DEFINED arg_OP)
    set(arg_OP attention)
  endif()
  if(NOT arg_OP MATCHES "^(attention|layer_norm|mha)$")
    message(FATAL_ERROR "${call}: OP ${arg_OP}: it must be attention, layer_norm or mha")
  endif()
  foreach(key CASES TIMEOUT)
    if(DEFINED arg_${key} AND NOT arg_${key} MATCHES "^[1-9][0-9]*$")
      message(FATAL_ERROR "${call}: ${key} ${arg_${key}}: it must be an integer above 0")
    endif()
  endforeach()
  _attest_locate(file stem "${target}" "${call}")
  if(DEFINED arg_CORPUS)
    list(LENGTH arg_SUBJECT subjects)
    if(subjects GREATER 1)
      message(FATAL_ERROR "${call}: CORPUS holds reproducers of one SUBJECT: call it once for each")
    endif()
    get_filename_component(arg_CORPUS "${arg_CORPUS}" ABSOLUTE)
    if(NOT EXISTS "${arg_CORPUS}")
      message(FATAL_ERROR "${call}: there is no CORPUS ${arg_CORPUS}: `attest fuzz --corpus FOLDER` makes one")
    endif()
  endif()

  if(NOT arg_SUBJECT)
    set(arg_SUBJECT "${stem}")
    set(alone TRUE)
  endif()
  foreach(name IN LISTS arg_SUBJECT)
    set(subject "${file}")
    if(NOT alone)
      string(APPEND subject ":${name}")
    endif()
    set(corpus "${arg_CORPUS}")
    if(NOT DEFINED arg_CORPUS AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}")
      set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}")
    endif()
    string(PREPEND name "${arg_TEST_PREFIX}")
    _attest_claim("${name}" "${target}" "${call}")
    _attest_write_tests("${name}" "${subject}" "${corpus}")
  endforeach()
  _attest_tell_skipped()
endfunction()

# Has ctest tell the reasons of skipped tests when it has told the others. A CTestCustom.cmake of the project's own stays, and may
# include what is written here.
function(_attest_tell_skipped)
  set(script "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/AttestSkippedTests.cmake")
  set(command "\\\"${CMAKE_COMMAND}\\\" -P \\\"${script}\\\"")
  set(file "${CMAKE_BINARY_DIR}/attest_tests/CTestCustom.cmake")
  set(custom "${CMAKE_BINARY_DIR}/CTestCustom.cmake")
  file(WRITE "${file}" "list(APPEND CTEST_CUSTOM_POST_TEST \"${command}\")\n")
  if(NOT EXISTS "${custom}")
    file(WRITE "${custom}" "include(\"${file}\")\n")
  endif()
endfunction()

# The file or subject that the command line of attest takes, and what its tests are called after.
function(_attest_locate file_variable stem_variable target call)
  set(stem "${target}")
  if(TARGET ${target})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "SHARED_LIBRARY")
      set(file "$<TARGET_LINKER_FILE:${target}>")  # ends with .so even if it has a version
    elseif(type MATCHES "^(MODULE_LIBRARY|EXECUTABLE)$")
      set(file "$<TARGET_FILE:${target}>")
    else()
      message(FATAL_ERROR "${call}: the target is a ${type}: put the kernel's subject into a MODULE library and name that")
    endif()
  elseif(target MATCHES "\\.(so|py)$" OR target MATCHES "/")
    get_filename_component(stem "${target}" NAME_WE)
    get_filename_component(file "${target}" ABSOLUTE)
    if(NOT EXISTS "${file}" AND NOT IS_ABSOLUTE "${target}")
      get_filename_component(file "${target}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    endif()
  elseif(target MATCHES "^[A-Za-z0-9_-]+:")
    set(file "${target}")
  else()
    message(FATAL_ERROR "${call}: it is no target of this project so far, no .so, no .py and no subject of attest (PREFIX:NAME)")
  endif()
  set(${file_variable} "${file}" PARENT_SCOPE)
  set(${stem_variable} "${stem}" PARENT_SCOPE)
endfunction()

# Tests of two targets may not bear one name.
function(_attest_claim name target call)
  get_property(owners GLOBAL PROPERTY ATTEST_TEST_OWNERS)
  foreach(owner IN LISTS owners)
    if(owner MATCHES "^(.*)=(.*)$" AND CMAKE_MATCH_1 STREQUAL name AND NOT CMAKE_MATCH_2 STREQUAL target)
      message(FATAL_ERROR "${call}: ${CMAKE_MATCH_2} has tests named ${name} already: give TEST_PREFIX")
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY ATTEST_TEST_OWNERS "${name}=${target}")
endfunction()

# Writes what ctest reads, one file per configuration.
function(_attest_write_tests name subject corpus)
  string(MAKE_C_IDENTIFIER "${name}" plain)
  get_property(calls DIRECTORY PROPERTY ATTEST_TEST_CALLS)  # tells two calls for one name apart
  math(EXPR calls "0${calls} + 1")
  set_property(DIRECTORY PROPERTY ATTEST_TEST_CALLS ${calls})
  set(base "${CMAKE_CURRENT_BINARY_DIR}/attest_tests/${plain}-${calls}")
  set(labels attest ${arg_LABELS})
  file(GENERATE OUTPUT "${base}-$<CONFIG>.cmake" CONTENT
"set(cmake [==[${CMAKE_COMMAND}]==])
set(attest [==[$<TARGET_FILE:attest::attest>]==])
set(name [==[${name}]==])
set(subject [==[${subject}]==])
set(op ${arg_OP})
set(properties [==[${arg_PROPERTIES}]==])
set(cases ${arg_CASES})
set(corpus [==[${corpus}]==])
set(labels [==[${labels}]==])
set(timeout ${arg_TIMEOUT})
set(python [==[${arg_PYTHON}]==])
set(arguments [==[${arg_ARGUMENTS}]==])
set(folder [==[${CMAKE_CURRENT_BINARY_DIR}]==])
include([==[${CMAKE_CURRENT_FUNCTION_LIST_DIR}/AttestDiscoverTests.cmake]==])
")
  get_property(multi GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(multi)
    file(WRITE "${base}.cmake" "include(\"${base}-\${CTEST_CONFIGURATION_TYPE}.cmake\")\n")
  else()
    file(WRITE "${base}.cmake" "include(\"${base}-${CMAKE_BUILD_TYPE}.cmake\")\n")
  endif()
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${base}.cmake")
endfunction()
