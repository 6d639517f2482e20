/* Stands in for the driver of CUDA in tests: GPUs whose work is done by threads, late and at odd times.
 *
 * A stream is a thread that takes what it is given in order, and sleeps a little before each. Addresses of GPU memory cannot be
 * followed by the program: the pages are there a second time for the threads of streams. So a pointer that is followed on the
 * host ends the program, and so does one that is given to a stream and lies in no allocation. Whatever makes the true driver
 * wait for all work of a GPU does so here, and with FAKE_CUDA_STRICT also what might; a copy to memory that is not pinned, which
 * waits for its stream, holds up calls that make something, and with FAKE_CUDA_HOLDS all. Kernels are those of reduce.cu, compiled
 * for the host.
 *
 * FAKE_CUDA_DEVICES: how many GPUs there are, 8 unless given. FAKE_CUDA_FAIL=NAME:N: the N-th call of that name fails.
 * FAKE_CUDA_DELAY: microseconds at most before each piece of work, 150 unless given. */
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the kernels find on a GPU. One thread does all elements. */
#define __device__
#define __global__
struct Three {
    unsigned x;
};
static const Three blockIdx = {0}, threadIdx = {0}, blockDim = {1}, gridDim = {1};
static inline float __uint_as_float(unsigned bits) {
    float number;
    memcpy(&number, &bits, 4);
    return number;
}
static inline unsigned __float_as_uint(float number) {
    unsigned bits;
    memcpy(&bits, &number, 4);
    return bits;
}
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
#include "reduce.cu"

typedef int Code;
enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    UNKNOWN = 999
};

static void die(const char *what, u64 address, size_t bytes) {
    fprintf(stderr, "fake_device: %s: %#llx, %zu bytes\n", what, address, bytes);
    abort();
}

/* Work of a stream, in order. */
struct Stream {
    struct Context *context;
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool busy = false, ended = false;
    int capture = 0;
    std::thread thread;

    explicit Stream(Context *context) : context(context), thread([this] { run(); }) {}

    void run() {
        static const char *said = getenv("FAKE_CUDA_DELAY");
        static const int most = said ? atoi(said) : 150;
        std::minstd_rand random((unsigned)(getpid() * 31) ^ (unsigned)(uintptr_t)this);
        for (;;) {
            std::function<void()> next;
            {
                std::unique_lock<std::mutex> guard(lock);
                changed.wait(guard, [this] { return ended || !work.empty(); });
                if (work.empty()) return;
                next = std::move(work.front());
                work.pop_front();
                busy = true;
                changed.notify_all();
            }
            /* Mostly soon, at times late. */
            unsigned drawn = (unsigned)random();
            if (most > 0 && drawn % 4 == 0) usleep(drawn / 4 % (unsigned)most);
            next();
            std::lock_guard<std::mutex> guard(lock);
            busy = false;
            changed.notify_all();
        }
    }
    /* As in the true driver, whoever gives too much waits until some of it is done. */
    void give(std::function<void()> next) {
        std::unique_lock<std::mutex> guard(lock);
        changed.wait(guard, [this] { return work.size() < 15; });
        work.push_back(std::move(next));
        changed.notify_all();
    }
    void synchronize() {
        std::unique_lock<std::mutex> guard(lock);
        changed.wait(guard, [this] { return work.empty() && !busy; });
    }
};

struct Context {
    int device;
    std::mutex lock;
    /* Held while a copy from or to memory that is not pinned waits for its stream. */
    std::mutex copies;
    std::vector<Stream *> streams;
    Stream *legacy = nullptr;

    Stream *add() {
        Stream *stream = new Stream(this);
        std::lock_guard<std::mutex> guard(lock);
        streams.push_back(stream);
        return stream;
    }
    /* What may wait for all work of the GPU waits for it. */
    void synchronize() {
        std::vector<Stream *> all;
        {
            std::lock_guard<std::mutex> guard(lock);
            all = streams;
        }
        for (Stream *stream : all) stream->synchronize();
    }
};

struct Event {
    std::mutex lock;
    std::shared_ptr<bool> is_done;
};

struct Allocation {
    size_t bytes;
    char *host;
    int file;
    Context *context;
};

static std::mutex memory_lock;
/* Never destroyed: threads of streams go on while the program ends. */
static std::map<u64, Allocation> &allocations = *new std::map<u64, Allocation>;
static std::map<u64, size_t> &registered = *new std::map<u64, size_t>;
static thread_local std::vector<Context *> contexts;
static thread_local Stream *own_stream;

static Context *current() { return contexts.empty() ? nullptr : contexts.back(); }

/* Whether a call is to fail. */
static bool fails(const char *name) {
    static std::mutex lock;
    static std::map<std::string, int> &counts = *new std::map<std::string, int>;
    static const char *wish = getenv("FAKE_CUDA_FAIL");
    if (!wish) return false;
    std::lock_guard<std::mutex> guard(lock);
    return std::string(wish) == std::string(name) + ":" + std::to_string(++counts[name]);
}
/* Whether a call makes or ends something, for which the true driver waits for copies that wait. */
static bool makes(const char *name) {
    static const char *const all[] = {"cuEventCreate", "cuStreamCreateWithPriority", "cuMemAlloc_v2", "cuMemFree_v2",
                                      "cuMemHostRegister_v2", "cuMemHostUnregister", "cuModuleLoadData", "cuModuleUnload",
                                      "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle", "cuEventDestroy_v2",
                                      "cuStreamDestroy_v2"};
    for (const char *one : all) {
        if (!strcmp(one, name)) return true;
    }
    return false;
}
#define ENTER(NAME)                                                                                                    \
    if (fails(NAME)) return UNKNOWN
#define ENTER_CONTEXT(NAME)                                                                                            \
    ENTER(NAME);                                                                                                       \
    if (!current()) return INVALID_CONTEXT;                                                                            \
    static const bool is_held_up = makes(NAME) || getenv("FAKE_CUDA_HOLDS");                                           \
    std::unique_lock<std::mutex> entered(current()->copies, std::defer_lock);                                          \
    if (is_held_up) std::unique_lock<std::mutex>(current()->copies)

static Stream *stream_of(void *handle) {
    Context *context = current();
    if ((uintptr_t)handle <= 1) {
        std::unique_lock<std::mutex> guard(context->lock);
        if (!context->legacy) {
            guard.unlock();
            Stream *legacy = context->add();
            guard.lock();
            if (!context->legacy) context->legacy = legacy;
        }
        return context->legacy;
    }
    if ((uintptr_t)handle == 2) {
        if (!own_stream) own_stream = context->add();
        return own_stream;
    }
    return (Stream *)handle;
}

/* Where the threads of streams find memory that a GPU reaches. */
static char *reached(const char *what, u64 address, size_t bytes) {
    std::lock_guard<std::mutex> guard(memory_lock);
    auto found = allocations.upper_bound(address);
    if (found != allocations.begin()) {
        --found;
        if (address + bytes <= found->first + found->second.bytes) return found->second.host + (address - found->first);
    }
    auto host = registered.upper_bound(address);
    if (host != registered.begin()) {
        --host;
        if (address + bytes <= host->first + host->second) return (char *)address;
    }
    die(what, address, bytes);
    return nullptr;
}

static char *map(int file, size_t bytes, int access) {
    void *start = mmap(nullptr, bytes, access, MAP_SHARED, file, 0);
    return start == MAP_FAILED ? nullptr : (char *)start;
}

struct Kernel {
    const char *name;
    int pointers;
    size_t element;
    void (*run)(void **parameters);
};
#define POINTER(TYPE, N) (*(TYPE **)parameters[N])
#define VALUE(TYPE, N) (*(TYPE *)parameters[N])
#define PLAIN(NAME, TYPE, OP)                                                                                          \
    {"reduce_" #NAME "_" #OP, 3, sizeof(TYPE::Value), [](void **parameters) {                                          \
         reduce_##NAME##_##OP(POINTER(TYPE::Value, 0), POINTER(TYPE::Value, 1), POINTER(TYPE::Value, 2),               \
                              VALUE(u64, 3));                                                                          \
     }}
#define OF(NAME, ...) OF_TYPE(NAME, __VA_ARGS__)
#define OF_TYPE(NAME, TYPE)                                                                                            \
    PLAIN(NAME, TYPE, add), PLAIN(NAME, TYPE, mul), PLAIN(NAME, TYPE, larger), PLAIN(NAME, TYPE, smaller),             \
        {"scaled_" #NAME "_add", 3, sizeof(TYPE::Value),                                                               \
         [](void **parameters) {                                                                                       \
             scaled_##NAME##_add(POINTER(TYPE::Value, 0), POINTER(TYPE::Value, 1), POINTER(TYPE::Value, 2),            \
                                 VALUE(TYPE::Value, 3), VALUE(u64, 4));                                                \
         }},                                                                                                           \
        {"scale_" #NAME, 2, sizeof(TYPE::Value), [](void **parameters) {                                               \
             scale_##NAME(POINTER(TYPE::Value, 0), POINTER(TYPE::Value, 1), VALUE(TYPE::Value, 2), VALUE(u64, 3));     \
         }}
#define OF_QUOTIENT(NAME, TYPE, DIVISOR)                                                                               \
    {"divide_" #NAME, 1, sizeof(TYPE),                                                                                 \
     [](void **parameters) { divide_##NAME(POINTER(TYPE, 0), VALUE(DIVISOR, 1), VALUE(u64, 2)); }}

static const Kernel kernels[] = {
    OF(int8, Whole<i8>),        OF(uint8, Whole<u8>),       OF(int32, Whole<i32>),        OF(uint32, Whole<u32>),
    OF(int64, Whole<i64>),      OF(uint64, Whole<u64>),     OF(float16, Small<Binary16>), OF(float32, Float32),
    OF(float64, Float64),       OF(bfloat16, Small<Brain>), OF(float8_e4m3fn, Small<E4M3>),
    OF(float8_e5m2, Small<E5M2>), OF_QUOTIENT(int8, i8, i32), OF_QUOTIENT(uint8, u8, u32),
    OF_QUOTIENT(int32, i32, i32), OF_QUOTIENT(uint32, u32, u32), OF_QUOTIENT(int64, i64, i64),
    OF_QUOTIENT(uint64, u64, u64)};

extern "C" {
/* For tests of the kernels alone: does one on memory of the host. Returns whether there is such a one. */
int fake_kernel(const char *name, void **parameters) {
    for (const Kernel &kernel : kernels) {
        if (strcmp(kernel.name, name)) continue;
        kernel.run(parameters);
        return 1;
    }
    return 0;
}

Code cuInit(unsigned) {
    ENTER("cuInit");
    return OK;
}
Code cuGetErrorName(Code code, const char **text) {
    *text = code == UNKNOWN ? "CUDA_ERROR_UNKNOWN" : code == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT" : nullptr;
    return *text ? OK : INVALID_VALUE;
}
Code cuGetErrorString(Code code, const char **text) {
    *text = code == UNKNOWN ? "unknown error" : code == INVALID_CONTEXT ? "invalid device context" : nullptr;
    return *text ? OK : INVALID_VALUE;
}
static int devices() {
    const char *said = getenv("FAKE_CUDA_DEVICES");
    return said ? atoi(said) : 8;
}
Code cuDeviceGet(int *device, int number) {
    ENTER("cuDeviceGet");
    if (number < 0 || number >= devices()) return 101;
    *device = number;
    return OK;
}
Code cuDeviceGetAttribute(int *value, int attribute, int) {
    ENTER("cuDeviceGetAttribute");
    switch (attribute) {
    case 16: *value = 4; return OK;
    case 41: *value = 1; return OK;
    case 75: *value = 9; return OK;
    case 76: *value = 0; return OK;
    case 91: *value = 1; return OK;
    }
    return INVALID_VALUE;
}
Code cuDeviceGetPCIBusId(char *text, int length, int device) {
    ENTER("cuDeviceGetPCIBusId");
    snprintf(text, (size_t)length, "0000:%02x:00.0", 16 + device);
    return OK;
}
Code cuDeviceGetByPCIBusId(int *device, const char *text) {
    ENTER("cuDeviceGetByPCIBusId");
    unsigned bus;
    if (sscanf(text, "0000:%x:00.0", &bus) != 1 || bus < 16 || bus >= 16u + (unsigned)devices()) return 101;
    *device = (int)bus - 16;
    return OK;
}
Code cuDeviceCanAccessPeer(int *can, int, int) {
    ENTER("cuDeviceCanAccessPeer");
    const char *said = getenv("FAKE_CUDA_PEERS");
    *can = said ? atoi(said) : 1;
    return OK;
}
Code cuDevicePrimaryCtxRetain(void **context, int device) {
    static std::mutex lock;
    static std::map<int, Context *> all;
    ENTER("cuDevicePrimaryCtxRetain");
    std::lock_guard<std::mutex> guard(lock);
    if (!all[device]) {
        all[device] = new Context;
        all[device]->device = device;
    }
    *context = all[device];
    return OK;
}
Code cuCtxGetCurrent(void **context) {
    *context = current();
    return OK;
}
Code cuCtxSetCurrent(void *context) {
    if (!contexts.empty()) contexts.pop_back();
    if (context) contexts.push_back((Context *)context);
    return OK;
}
Code cuCtxPushCurrent_v2(void *context) {
    ENTER("cuCtxPushCurrent_v2");
    contexts.push_back((Context *)context);
    return OK;
}
Code cuCtxPopCurrent_v2(void **context) {
    ENTER_CONTEXT("cuCtxPopCurrent_v2");
    *context = current();
    contexts.pop_back();
    return OK;
}
Code cuCtxGetDevice(int *device) {
    ENTER_CONTEXT("cuCtxGetDevice");
    *device = current()->device;
    return OK;
}
Code cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    ENTER_CONTEXT("cuCtxGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return OK;
}
Code cuMemAlloc_v2(u64 *address, size_t bytes) {
    ENTER_CONTEXT("cuMemAlloc_v2");
    if (getenv("FAKE_CUDA_STRICT")) current()->synchronize();
    size_t whole = (bytes + 4095) / 4096 * 4096;
    int file = memfd_create("fake_device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)whole)) return OUT_OF_MEMORY;
    char *host = map(file, whole, PROT_READ | PROT_WRITE), *device = map(file, whole, PROT_NONE);
    if (!host || !device) return OUT_OF_MEMORY;
    memset(host, 0xee, whole);
    std::lock_guard<std::mutex> guard(memory_lock);
    allocations[(u64)device] = {bytes, host, file, current()};
    *address = (u64)device;
    return OK;
}
static Code forget(u64 address) {
    std::lock_guard<std::mutex> guard(memory_lock);
    auto found = allocations.find(address);
    if (found == allocations.end()) return INVALID_VALUE;
    size_t whole = (found->second.bytes + 4095) / 4096 * 4096;
    munmap(found->second.host, whole);
    munmap((void *)address, whole);
    close(found->second.file);
    allocations.erase(found);
    return OK;
}
Code cuMemFree_v2(u64 address) {
    ENTER_CONTEXT("cuMemFree_v2");
    current()->synchronize();
    return forget(address);
}
struct Ipc {
    int process, file;
    size_t bytes;
    char rest[64 - 16];
};
Code cuIpcGetMemHandle(Ipc *handle, u64 address) {
    ENTER_CONTEXT("cuIpcGetMemHandle");
    std::lock_guard<std::mutex> guard(memory_lock);
    auto found = allocations.find(address);
    if (found == allocations.end()) return INVALID_VALUE;
    memset(handle, 0, sizeof *handle);
    handle->process = getpid();
    handle->file = found->second.file;
    handle->bytes = found->second.bytes;
    return OK;
}
Code cuIpcOpenMemHandle_v2(u64 *address, Ipc handle, unsigned flags) {
    ENTER_CONTEXT("cuIpcOpenMemHandle_v2");
    /* As the true driver has it. */
    if (flags != 1 || handle.process == getpid()) return INVALID_VALUE;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return INVALID_VALUE;
    size_t whole = (handle.bytes + 4095) / 4096 * 4096;
    char *host = map(file, whole, PROT_READ | PROT_WRITE), *device = map(file, whole, PROT_NONE);
    if (!host || !device) return OUT_OF_MEMORY;
    std::lock_guard<std::mutex> guard(memory_lock);
    allocations[(u64)device] = {handle.bytes, host, file, current()};
    *address = (u64)device;
    return OK;
}
Code cuIpcCloseMemHandle(u64 address) {
    ENTER_CONTEXT("cuIpcCloseMemHandle");
    current()->synchronize();
    return forget(address);
}
Code cuMemHostRegister_v2(void *start, size_t bytes, unsigned flags) {
    ENTER_CONTEXT("cuMemHostRegister_v2");
    if (getenv("FAKE_CUDA_STRICT")) current()->synchronize();
    if (flags != 3 || (u64)start % 4096 || bytes % 4096) return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(memory_lock);
    if (registered.count((u64)start)) return ALREADY_REGISTERED;
    registered[(u64)start] = bytes;
    return OK;
}
Code cuMemHostUnregister(void *start) {
    ENTER_CONTEXT("cuMemHostUnregister");
    current()->synchronize();
    std::lock_guard<std::mutex> guard(memory_lock);
    return registered.erase((u64)start) ? OK : NOT_REGISTERED;
}
Code cuMemHostGetDevicePointer_v2(u64 *address, void *start, unsigned) {
    ENTER_CONTEXT("cuMemHostGetDevicePointer_v2");
    *address = (u64)start;
    return OK;
}
Code cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    ENTER_CONTEXT("cuStreamCreateWithPriority");
    if (flags > 1 || priority < -5 || priority > 0) return INVALID_VALUE;
    *stream = current()->add();
    return OK;
}
Code cuStreamDestroy_v2(void *handle) {
    ENTER_CONTEXT("cuStreamDestroy_v2");
    Stream *stream = stream_of(handle);
    Context *context = stream->context;
    {
        std::lock_guard<std::mutex> guard(context->lock);
        for (size_t i = 0; i < context->streams.size(); i++) {
            if (context->streams[i] == stream) context->streams.erase(context->streams.begin() + (long)i--);
        }
    }
    {
        std::lock_guard<std::mutex> guard(stream->lock);
        stream->ended = true;
        stream->changed.notify_all();
    }
    /* What it has been given is done first; who looks at it from another thread still finds it. */
    stream->thread.detach();
    return OK;
}
Code cuStreamSynchronize(void *handle) {
    ENTER_CONTEXT("cuStreamSynchronize");
    stream_of(handle)->synchronize();
    return OK;
}
Code cuThreadExchangeStreamCaptureMode(int *mode) {
    ENTER("cuThreadExchangeStreamCaptureMode");
    *mode = 0;
    return OK;
}
Code cuStreamIsCapturing(void *handle, int *status) {
    ENTER_CONTEXT("cuStreamIsCapturing");
    *status = stream_of(handle)->capture;
    return OK;
}
Code cuStreamBeginCapture_v2(void *handle, int) {
    stream_of(handle)->capture = 1;
    return OK;
}
Code cuStreamEndCapture(void *handle, void **graph) {
    stream_of(handle)->capture = 0;
    *graph = nullptr;
    return OK;
}
Code cuStreamWaitValue32_v2(void *handle, u64 address, unsigned value, unsigned flags) {
    ENTER_CONTEXT("cuStreamWaitValue32_v2");
    if (flags) return INVALID_VALUE;
    const u32 *word = (const u32 *)reached("a word that a stream waits for", address, 4);
    stream_of(handle)->give([word, value] {
        while ((int)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0) usleep(20);
    });
    return OK;
}
Code cuEventCreate(void **event, unsigned) {
    ENTER_CONTEXT("cuEventCreate");
    *event = new Event;
    return OK;
}
Code cuEventDestroy_v2(void *event) {
    ENTER_CONTEXT("cuEventDestroy_v2");
    delete (Event *)event;
    return OK;
}
Code cuEventRecord(void *handle, void *stream) {
    ENTER_CONTEXT("cuEventRecord");
    Event *event = (Event *)handle;
    Stream *on = stream_of(stream);
    if (on->context != current()) return INVALID_HANDLE;
    auto is_done = std::make_shared<bool>(false);
    {
        std::lock_guard<std::mutex> guard(event->lock);
        event->is_done = is_done;
    }
    on->give([is_done] { __atomic_store_n(is_done.get(), true, __ATOMIC_RELEASE); });
    return OK;
}
Code cuEventQuery(void *handle) {
    ENTER_CONTEXT("cuEventQuery");
    Event *event = (Event *)handle;
    std::lock_guard<std::mutex> guard(event->lock);
    if (event->is_done && !__atomic_load_n(event->is_done.get(), __ATOMIC_ACQUIRE)) return NOT_READY;
    return OK;
}
Code cuMemcpyAsync(u64 to, u64 from, size_t bytes, void *handle) {
    ENTER_CONTEXT("cuMemcpyAsync");
    Stream *stream = stream_of(handle);
    if (stream->context != current()) return INVALID_HANDLE;
    char *target = reached("the target of a copy", to, bytes), *source = reached("the source of a copy", from, bytes);
    stream->give([=] { memcpy(target, source, bytes); });
    return OK;
}
/* As the true driver, it takes pages that nobody has registered as those of the host. */
static char *anywhere(u64 address, size_t bytes) {
    {
        std::lock_guard<std::mutex> guard(memory_lock);
        auto found = allocations.upper_bound(address);
        if (found == allocations.begin() || address >= std::prev(found)->first + std::prev(found)->second.bytes) {
            return (char *)address;
        }
    }
    return reached("a copy", address, bytes);
}
Code cuMemcpy(u64 to, u64 from, size_t bytes) {
    ENTER_CONTEXT("cuMemcpy");
    memcpy(anywhere(to, bytes), anywhere(from, bytes), bytes);
    return OK;
}
Code cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, void *handle) {
    ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
    char *target = reached("the target of a copy", to, bytes);
    auto kept = std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
    stream_of(handle)->give([=] { memcpy(target, kept->data(), bytes); });
    if (bytes > 65536) {
        entered.lock();
        stream_of(handle)->synchronize();
    }
    return OK;
}
Code cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, void *handle) {
    ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
    char *source = reached("the source of a copy", from, bytes);
    stream_of(handle)->give([=] { memcpy(to, source, bytes); });
    entered.lock();
    stream_of(handle)->synchronize();
    return OK;
}
Code cuModuleLoadData(void **module, const void *image) {
    ENTER_CONTEXT("cuModuleLoadData");
    current()->synchronize();
    if (!strstr((const char *)image, ".version")) return INVALID_VALUE;
    *module = (void *)kernels;
    return OK;
}
Code cuModuleUnload(void *) {
    ENTER_CONTEXT("cuModuleUnload");
    current()->synchronize();
    return OK;
}
Code cuModuleGetFunction(void **function, void *, const char *name) {
    ENTER_CONTEXT("cuModuleGetFunction");
    for (const Kernel &kernel : kernels) {
        if (!strcmp(kernel.name, name)) {
            *function = (void *)&kernel;
            return OK;
        }
    }
    return NOT_FOUND;
}
Code cuLaunchKernel(void *function, unsigned grid, unsigned, unsigned, unsigned block, unsigned, unsigned, unsigned,
                    void *handle, void **parameters, void **) {
    ENTER_CONTEXT("cuLaunchKernel");
    Stream *stream = stream_of(handle);
    if (stream->context != current()) return INVALID_HANDLE;
    const Kernel *kernel = (const Kernel *)function;
    if (!grid || !block || block > 1024) return INVALID_VALUE;
    /* Parameters are read now: pointers, a constant of an element or of 4 bytes at least, and the count. */
    int count = kernel->pointers + (kernel->name[0] == 'r' ? 0 : 1);
    u64 elements = *(u64 *)parameters[count];
    struct Kept {
        u64 words[5];
    } kept = {};
    for (int i = 0; i < count; i++) memcpy(&kept.words[i], parameters[i], 8);
    kept.words[count] = elements;
    for (int i = 0; i < kernel->pointers; i++) {
        if (kept.words[i] % kernel->element) die("a pointer of a kernel is not aligned", kept.words[i], 0);
        kept.words[i] = (u64)reached("a pointer of a kernel", kept.words[i], elements * kernel->element);
    }
    stream->give([kernel, kept] {
        Kept own = kept;
        void *all[5];
        for (int i = 0; i < 5; i++) all[i] = &own.words[i];
        kernel->run(all);
    });
    return OK;
}
}
