/* The plug-in onednn.so: sets the environment of the library, then loads it, with its subject, from the folder onednn beside this file.
 *
 * The oneDNN of PyPI computes on the CPU through SYCL and OpenCL, whose loader finds the driver by this variable alone where it was
 * not installed by the system. */
#include <attest/plugin.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  const attest_subject* (*subjects)(uint32_t, size_t*) = NULL;
  setenv("OCL_ICD_FILENAMES", ONEDNN_DRIVER, 0);
  void* library = dlopen("sdpa.so", RTLD_NOW | RTLD_LOCAL); /* through this file's own run path */
  if (library != NULL) {
    void* symbol = dlsym(library, "attest_plugin");
    memcpy(&subjects, &symbol, sizeof subjects);
  }
  if (subjects == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return NULL;
  }
  return subjects(abi, count);
}
