# attest_add_test(NAME file.cpp... LIBS target... LABELS label... [TIMEOUT seconds] [ENV NAME=value...] [READS_REPOSITORY])
#
# A GoogleTest executable NAME and one CTest test of the same name: one process per executable
# keeps CTest's start-up cheap. Tests run in the build folder's tests/; with READS_REPOSITORY they find files of the
# repository through ATTEST_SOURCE_DIR (a string literal), and are compiled anew in each clone.
set(ATTEST_TEST_LABELS
    property faults founding corpus cli install layering determinism threads adapters gpu slow)

# What the label `threads` runs, for the preset tsan.
add_custom_target(attest-thread-tests)

function(attest_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "READS_REPOSITORY" "TIMEOUT" "LIBS;LABELS;ENV")
  set(sources ${arg_UNPARSED_ARGUMENTS})
  if(NOT sources OR NOT arg_LABELS)
    message(FATAL_ERROR "attest_add_test(${name}): needs source files and LABELS")
  endif()
  attest_check_labels(${name} ${arg_LABELS})
  add_executable(${name} ${sources})
  attest_cold(${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  if(arg_READS_REPOSITORY)
    target_compile_definitions(${name} PRIVATE ATTEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  set(properties LABELS ${arg_LABELS} ENV ${arg_ENV})
  if(arg_TIMEOUT)
    list(APPEND properties TIMEOUT ${arg_TIMEOUT})
  endif()
  attest_test_properties(${name} ${properties})
  if("threads" IN_LIST arg_LABELS)
    add_dependencies(attest-thread-tests ${name})
  endif()
endfunction()

# attest_test_properties(NAME LABELS label... [TIMEOUT seconds] [ENV NAME=value...]): the same
# settings for a test made with add_test(). A test that cannot run here exits with 125 (skipped). Sanitizers get ten times as long.
function(attest_test_properties name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;ENV")
  attest_check_labels(${name} ${arg_LABELS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)  # ends what hangs; no test takes a fifth of it on two cores that have other work
  endif()
  if(ATTEST_SANITIZE)
    math(EXPR arg_TIMEOUT "10 * ${arg_TIMEOUT}")
  endif()
  if(ATTEST_SANITIZE MATCHES "thread")  # libomp tells what its threads wait for; how it does so is its own affair
    list(APPEND arg_ENV "TSAN_OPTIONS=ignore_noninstrumented_modules=1")
  endif()
  # OpenMP threads that spin while they wait would slow down the tests beside them. What is noted of subjects that were started
  # stays in the build folder.
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 125
    ENVIRONMENT "OMP_WAIT_POLICY=passive;XDG_STATE_HOME=${PROJECT_BINARY_DIR}/tests/state;XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/tests/cache;${arg_ENV}")
endfunction()

function(attest_check_labels name)
  foreach(label IN LISTS ARGN)
    if(NOT label IN_LIST ATTEST_TEST_LABELS)
      message(FATAL_ERROR "test ${name}: label '${label}' is none of ${ATTEST_TEST_LABELS}")
    endif()
  endforeach()
endfunction()
