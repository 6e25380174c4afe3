/* The plug-in ggml.so: sets the environment of the library, then loads it, with its subject, from the folder ggml beside this file.
 *
 * OpenMP reads its environment as it is loaded. By default its threads spin at every barrier, of which a call has several: under
 * as many jobs as processors, a call of 20 us takes milliseconds. */
#include <attest/plugin.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  const attest_subject* (*subjects)(uint32_t, size_t*) = NULL;
  setenv("OMP_WAIT_POLICY", "passive", 0);
  setenv("GGML_NO_BACKTRACE", "1", 0); /* else a failed assertion starts a debugger first */
  void* library = dlopen("flash_attn_ext.so", RTLD_NOW | RTLD_LOCAL); /* through this file's own run path */
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
