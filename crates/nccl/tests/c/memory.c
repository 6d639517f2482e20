/* Where the buffers of the clients are: in memory of the host, or, if CLIENT_GPUS says how many GPUs there are, in that of a GPU.
 * Calls are then on a stream of their own for each thread, or on the one whose number CLIENT_STREAM is (0, 1, 2). */
#include "common.h"

#include <dlfcn.h>
#include <pthread.h>

typedef unsigned long long address;

static struct {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*primary_context)(void **, int);
    int (*set_context)(void *);
    int (*stream_create)(void **, unsigned, int);
    int (*stream_destroy)(void *);
    int (*stream_synchronize)(void *);
    int (*begin_capture)(void *, int);
    int (*end_capture)(void *, void **);
    int (*allocate)(address *, size_t);
    int (*to_device)(address, const void *, size_t, void *);
    int (*to_host)(void *, address, size_t, void *);
} cuda;
static int gpus;
static __thread void *own_stream;
static __thread int own_rank = -1;

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        CHECK(code_ == 0, "result %d of CUDA", code_);                                                                 \
    } while (0)

static void load(void) {
    const char *said = getenv("CLIENT_GPUS");
    gpus = said ? atoi(said) : 0;
    if (gpus == 0) return;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library, "%s", dlerror());
    struct {
        const char *name;
        void *place;
    } functions[] = {{"cuInit", &cuda.init},
                     {"cuDeviceGet", &cuda.device_get},
                     {"cuDevicePrimaryCtxRetain", &cuda.primary_context},
                     {"cuCtxSetCurrent", &cuda.set_context},
                     {"cuStreamCreateWithPriority", &cuda.stream_create},
                     {"cuStreamDestroy_v2", &cuda.stream_destroy},
                     {"cuStreamSynchronize", &cuda.stream_synchronize},
                     {"cuStreamBeginCapture_v2", &cuda.begin_capture},
                     {"cuStreamEndCapture", &cuda.end_capture},
                     {"cuMemAlloc_v2", &cuda.allocate},
                     {"cuMemcpyHtoDAsync_v2", &cuda.to_device},
                     {"cuMemcpyDtoHAsync_v2", &cuda.to_host}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        CHECK(found, "no %s", functions[i].name);
        memcpy(functions[i].place, &found, sizeof found);
    }
    CUDA(cuda.init(0));
}

int on_gpus(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return gpus > 0;
}

void use_gpu_of(int rank) {
    void *context;
    int device;
    if (!on_gpus() || rank == own_rank) return;
    own_rank = rank;
    CUDA(cuda.device_get(&device, rank % gpus));
    CUDA(cuda.primary_context(&context, device));
    CUDA(cuda.set_context(context));
    const char *said = getenv("CLIENT_STREAM");
    own_stream = said ? (void *)(uintptr_t)atoi(said) : NULL;
    if (!said) CUDA(cuda.stream_create(&own_stream, 1, 0));
}

int gpu_of(int rank) { return on_gpus() ? rank % gpus : -1; }

void *new_stream(void) {
    void *stream = NULL;
    if (on_gpus()) CUDA(cuda.stream_create(&stream, 1, 0));
    return stream;
}

void *use_stream(void *stream) {
    void *before = own_stream;
    own_stream = stream;
    return before;
}

void *stream(void) { return own_stream; }

void synchronize(void) {
    if (on_gpus()) CUDA(cuda.stream_synchronize(own_stream));
}

void capture(int begins) {
    void *graph;
    if (begins) CUDA(cuda.begin_capture(own_stream, 2));
    if (!begins) CUDA(cuda.end_capture(own_stream, &graph));
}

/* Memory of GPUs that nobody uses. It is not given back to the driver, which would wait for all work of the GPU: where threads use
 * several communicators, ranks could then wait for each other for ever. */
static struct kept {
    struct kept *next;
    int gpu;
    size_t bytes;
    address memory;
    int is_used;
} *all_kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

void *new_memory(size_t bytes) {
    if (!on_gpus()) return calloc(1, bytes + 1);
    size_t whole = 4096;
    while (whole < bytes + 1) whole *= 2;
    pthread_mutex_lock(&kept_lock);
    struct kept *found = all_kept;
    while (found && (found->is_used || found->bytes != whole || found->gpu != own_rank % gpus)) found = found->next;
    if (!found) {
        found = calloc(1, sizeof *found);
        *found = (struct kept){all_kept, own_rank % gpus, whole, 0, 0};
        CUDA(cuda.allocate(&found->memory, whole));
        all_kept = found;
    }
    found->is_used = 1;
    pthread_mutex_unlock(&kept_lock);
    return (void *)(uintptr_t)found->memory;
}

void free_memory(void *memory) {
    if (!on_gpus()) {
        free(memory);
        return;
    }
    synchronize();
    pthread_mutex_lock(&kept_lock);
    for (struct kept *kept = all_kept; kept; kept = kept->next) {
        if (kept->memory == (address)(uintptr_t)memory) kept->is_used = 0;
    }
    pthread_mutex_unlock(&kept_lock);
}

/* Copies from and to memory of the host that is not pinned hold up all calls of the driver while they wait for the stream, and so
 * may wait for ever for a call of the library (runtime.md). The driver puts a copy to a GPU of so many bytes aside at once. */
enum { WAITING = 65536 };

void write_memory(void *to, const void *from, size_t bytes) {
    if (!on_gpus()) memcpy(to, from, bytes);
    if (bytes > WAITING) synchronize();
    if (on_gpus() && bytes) CUDA(cuda.to_device((address)(uintptr_t)to, from, bytes, own_stream));
}

void read_waiting(void *to, const void *from, size_t bytes) {
    if (!on_gpus()) memcpy(to, from, bytes);
    if (on_gpus() && bytes) CUDA(cuda.to_host(to, (address)(uintptr_t)from, bytes, own_stream));
}

void read_memory(void *to, const void *from, size_t bytes) {
    synchronize();
    read_waiting(to, from, bytes);
    synchronize();
}
