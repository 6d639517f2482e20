/* Stands in for NCCL's own library in tests: writes down which functions are called, and does what matters to who
   forwards calls. It has what NCCL 2.21.5 exports, each function under its two names, and calls some of its own
   functions as a program would. */
#include "syncline_nccl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x600d
#define MOST 16

struct ncclComm {
    int magic, rank, ranks, device;
};

/* Absent in programs without GPUs. */
__attribute__((weak)) int cuCtxGetCurrent(void **context);

static __thread int depth;
static __thread struct {
    ncclComm_t *where, comm;
} waiting[MOST];
static __thread int waiting_count;
static const char *last_error = "";

static void record(const char *name) {
    const char *path = getenv("FAKE_NCCL_LOG");
    char line[128];
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (file < 0) return;
    int length = snprintf(line, sizeof line, "%s\n", name);
    if (write(file, line, (size_t)length) != length) abort();
    close(file);
}

static ncclResult_t check(ncclComm_t comm) {
    if (comm && comm->magic == MAGIC) return ncclSuccess;
    record("a communicator that is not NCCL's");
    return ncclInvalidArgument;
}

/* Defines a function and its second name. */
#define BOTH(type, name, arguments)                                                                                    \
    type p##name arguments;                                                                                            \
    __attribute__((weak, alias("p" #name))) type name arguments;                                                       \
    type p##name arguments
#define CODE(name, arguments, ...)                                                                                     \
    BOTH(ncclResult_t, name, arguments) {                                                                              \
        record(#name);                                                                                                 \
        __VA_ARGS__                                                                                                    \
    }

BOTH(const char *, ncclGetErrorString, (ncclResult_t result)) { return result ? "fake" : "fine"; }
BOTH(const char *, ncclGetLastError, (ncclComm_t comm)) { return (void)comm, last_error; }

/* Unrecorded, as it is called an unknown number of times. */
BOTH(ncclResult_t, ncclGetVersion, (int *version)) {
    const char *chosen = getenv("FAKE_NCCL_VERSION");
    *version = chosen ? atoi(chosen) : 22105;
    return ncclSuccess;
}

CODE(ncclGetUniqueId, (ncclUniqueId *id), {
    for (int i = 0; i < 128; i++) id->internal[i] = (char)(i * 3);
    return ncclSuccess;
})

static ncclResult_t make(ncclComm_t *where, int ranks, int rank) {
    ncclComm_t comm = malloc(sizeof *comm);
    void *device = NULL;
    if (cuCtxGetCurrent) cuCtxGetCurrent(&device);
    *comm = (struct ncclComm){MAGIC, rank, ranks, (int)(size_t)device};
    /* In a group as late as it can be. */
    if (depth == 0) *where = comm;
    if (depth > 0) waiting[waiting_count].where = where, waiting[waiting_count++].comm = comm;
    return ncclSuccess;
}

static ncclResult_t init(ncclComm_t *where, int ranks, ncclUniqueId id, int rank) {
    for (int i = 0; i < 128; i++) {
        if (id.internal[i] != (char)(i * 3)) return record("an id that is not NCCL's"), ncclInvalidArgument;
    }
    return make(where, ranks, rank);
}

CODE(ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank), {
    return init(comm, ranks, id, rank);
})
CODE(ncclCommInitRankConfig, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config), {
    if (config->magic != 0xcafebeef || config->maxCTAs != 7) return ncclInvalidArgument;
    return init(comm, ranks, id, rank);
})
CODE(ncclCommInitAll, (ncclComm_t * comms, int count, const int *devices), {
    for (int rank = 0; rank < count; rank++) {
        if (devices && devices[rank] != count - rank) return ncclInvalidArgument;
        comms[rank] = malloc(sizeof **comms);
        *comms[rank] = (struct ncclComm){MAGIC, rank, count, rank};
    }
    return ncclSuccess;
})
CODE(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *new_comm, ncclConfig_t *config), {
    (void)key, (void)config;
    if (check(comm)) return ncclInvalidArgument;
    *new_comm = NULL;
    return color < 0 ? ncclSuccess : make(new_comm, 1, 0);
})
CODE(ncclCommFinalize, (ncclComm_t comm), { return check(comm) ? ncclInvalidArgument : ncclInProgress; })
CODE(ncclCommDestroy, (ncclComm_t comm), {
    if (check(comm)) return ncclInvalidArgument;
    comm->magic = 0;
    free(comm);
    return ncclSuccess;
})
CODE(ncclCommAbort, (ncclComm_t comm), { return check(comm); })
CODE(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *result), {
    *result = ncclSuccess;
    return check(comm);
})
CODE(ncclCommCount, (ncclComm_t comm, int *count), {
    *count = comm->ranks;
    return check(comm);
})
CODE(ncclCommUserRank, (ncclComm_t comm, int *rank), {
    *rank = comm->rank;
    return check(comm);
})
CODE(ncclCommCuDevice, (ncclComm_t comm, int *device), {
    *device = comm->device;
    return check(comm);
})
CODE(ncclCommRegister, (ncclComm_t comm, void *buffer, size_t size, void **handle), {
    (void)size;
    *handle = buffer;
    return check(comm);
})
CODE(ncclCommDeregister, (ncclComm_t comm, void *handle), { return (void)handle, check(comm); })
CODE(ncclMemAlloc, (void **pointer, size_t size), {
    *pointer = malloc(size);
    return ncclSuccess;
})
CODE(ncclMemFree, (void *pointer), {
    free(pointer);
    return ncclSuccess;
})
CODE(ncclRedOpCreatePreMulSum,
     (ncclRedOp_t * op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence, ncclComm_t comm), {
         (void)scalar, (void)type, (void)residence;
         *op = 1234;
         return check(comm);
     })
CODE(ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), { return op == 1234 ? check(comm) : ncclInvalidArgument; })

CODE(ncclAllReduce, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                     syncline_stream stream), {
    (void)type, (void)op;
    if (check(comm)) return ncclInvalidArgument;
    if (stream != (void *)0x77) return ncclInvalidUsage;
    memcpy(recv, send, count);
    return ncclSuccess;
})
CODE(ncclReduce, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                  ncclComm_t comm, syncline_stream stream), {
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)root, (void)comm, (void)stream;
    last_error = "the fake does not reduce";
    return ncclInvalidUsage;
})
CODE(ncclBroadcast, (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                     syncline_stream stream), {
    (void)send, (void)recv, (void)count, (void)type, (void)root, (void)stream;
    return check(comm);
})
CODE(ncclBcast, (void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, syncline_stream stream), {
    /* As NCCL does: in a group of its own, by the names that a program uses. */
    ncclGroupStart();
    ncclResult_t result = ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
    ncclGroupEnd();
    return result;
})
CODE(ncclAllGather, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                     syncline_stream stream), {
    (void)send, (void)recv, (void)count, (void)type, (void)stream;
    return check(comm);
})
CODE(ncclReduceScatter, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                         ncclComm_t comm, syncline_stream stream), {
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)stream;
    return check(comm);
})
CODE(ncclSend, (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                syncline_stream stream), {
    (void)send, (void)count, (void)type, (void)peer, (void)stream;
    return check(comm);
})
CODE(ncclRecv, (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, syncline_stream stream), {
    (void)recv, (void)count, (void)type, (void)peer, (void)stream;
    return check(comm);
})

CODE(ncclGroupStart, (void), {
    depth++;
    return ncclSuccess;
})

static void *ask(void *comm) {
    ncclResult_t state;
    if (ncclCommGetAsyncError(comm, &state)) record("a question of NCCL's own that fails");
    return NULL;
}

CODE(ncclGroupEnd, (void), {
    if (depth == 0) return ncclInvalidUsage;
    if (--depth > 0) return ncclSuccess;
    for (int i = 0; i < waiting_count; i++) {
        /* As NCCL does: from a thread of its own. */
        pthread_t thread;
        pthread_create(&thread, NULL, ask, waiting[i].comm);
        pthread_join(thread, NULL);
        *waiting[i].where = waiting[i].comm;
    }
    waiting_count = 0;
    return ncclSuccess;
})
