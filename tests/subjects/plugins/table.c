/* A plug-in whose table is wrong in the way that TABLE says. */
#include <attest/plugin.h>

#if TABLE == 1 /* no attest_plugin at all */
int another_symbol(void) { return 0; }
#else

static int attention(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self, (void)call, (void)message, (void)message_size;
  return ATTEST_DONE;
}

#define DESCRIBE "{\"ops\":[\"attention\"],\"dtypes\":[\"f32\"]}"

static attest_subject subjects[2] = {
    {.struct_size = sizeof(attest_subject), .name = "a", .version = "1", .describe = DESCRIBE, .attention = attention},
    {.struct_size = sizeof(attest_subject), .name = "b", .version = "1", .describe = DESCRIBE, .attention = attention},
};

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  *count = 1;
  (void)abi;
#if TABLE == 2    /* speaks another ABI */
  return abi == 99 ? subjects : NULL;
#elif TABLE == 3  /* no name */
  subjects[0].name = NULL;
#elif TABLE == 4  /* absurd size */
  subjects[0].struct_size = 12;
#elif TABLE == 5  /* no subject */
  *count = 0;
#elif TABLE == 6  /* describe is NULL */
  subjects[0].describe = NULL;
#elif TABLE == 7  /* dies while it is asked */
  *(volatile int*)0 = 1;
#elif TABLE == 8  /* two of one name */
  *count = 2;
  subjects[1].name = "a";
#elif TABLE == 9  /* an absurd count */
  *count = (size_t)-1;
#elif TABLE == 10 /* a name that cannot be typed */
  subjects[0].name = "a:b";
#elif TABLE == 11 /* a later table, longer than ours */
  static struct {
    attest_subject known;
    void* more[2];
  } later[2];
  for (int i = 0; i < 2; ++i) {
    later[i].known = subjects[i];
    later[i].known.struct_size = sizeof later[i];
  }
  *count = 2;
  return &later[0].known;
#endif
  return subjects;
}
#endif
