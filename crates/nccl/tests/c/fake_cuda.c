/* Stands in for the driver of CUDA in tests: each thread has a current context. */
#include <stddef.h>

static __thread void *current;

int cuCtxGetCurrent(void **context) {
    *context = current;
    return 0;
}

int cuCtxSetCurrent(void *context) {
    current = context;
    return 0;
}
