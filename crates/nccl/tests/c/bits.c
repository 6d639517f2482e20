/* Reductions of arbitrary bit patterns: what comes out on GPUs is what comes out on the host, to the last bit. So all kernels are
   compared with the loops of the CPU. */
#include "common.h"

#include <dirent.h>
#include <time.h>

static uint64_t magnitude(int type, const char *at) {
    uint64_t word = 0;
    memcpy(&word, at, size_of_type(type));
    return word & ~(1ull << (8 * size_of_type(type) - 1));
}

/* Which NaN a sum or product gives is not said, except in the types of 8 bits. */
static int is_nan(int type, const char *at) {
    switch (type) {
    case ncclFloat16: return magnitude(type, at) > 0x7c00;
    case ncclBfloat16: return magnitude(type, at) > 0x7f80;
    case ncclFloat32: return magnitude(type, at) > 0x7f800000;
    case ncclFloat64: return magnitude(type, at) > 0x7ff0000000000000;
    }
    return 0;
}

static void draw_bits(char *content, size_t bytes, int type, uint64_t seed) {
    size_t size = size_of_type(type);
    for (size_t i = 0; i < bytes; i++) content[i] = (char)draw(&seed);
    /* Some numbers of about the same size, so that sums round and cancel. */
    for (size_t i = 0; i + size <= bytes && type >= ncclFloat16; i += 3 * size) {
        put(type, content, i / size, 1 + draw(&seed) % 1024 / 1024.0);
        if (draw(&seed) % 2) content[i + size - 1] = (char)(content[i + size - 1] | 0x80);
    }
}

static void same_bits(struct seat seat) {
    enum { COUNT = 50021 };
    static const char *const names[] = {"sum", "prod", "max", "min", "avg", "premul_sum"};
    ncclComm_t gpu, host;
    OK(ncclCommInitRank(&gpu, seat.ranks, seat.id, seat.rank));
    ncclUniqueId id;
    if (seat.rank == 0) OK(ncclGetUniqueId(&id));
    void *travels = new_memory(sizeof id);
    write_memory(travels, &id, sizeof id);
    OK(ncclBcast(travels, sizeof id, ncclUint8, 0, gpu, stream()));
    read_memory(&id, travels, sizeof id);
    free_memory(travels);
    OK(synclineCommInit(&host, seat.ranks, &id, seat.rank, NULL));
    int compared = 0;
    for (int type = 0; type < 12; type++) {
        size_t bytes = COUNT * size_of_type(type);
        char *content = malloc(bytes), *right = malloc(bytes), *got = malloc(bytes);
        char *memory = new_memory(bytes), factor[8];
        for (int op = 0; op < 6; op++) {
            ncclRedOp_t of_gpu = op, of_host = op;
            put(type, factor, 0, type <= ncclUint64 ? 3 : 1.25);
            if (op == 5) {
                OK(ncclRedOpCreatePreMulSum(&of_gpu, factor, type, ncclScalarHostImmediate, gpu));
                OK(ncclRedOpCreatePreMulSum(&of_host, factor, type, ncclScalarHostImmediate, host));
            }
            draw_bits(content, bytes, type, (uint64_t)(100 * type + 10 * op + seat.rank));
            write_memory(memory, content, bytes);
            OK(ncclAllReduce(memory, memory, COUNT, type, of_gpu, gpu, stream()));
            OK(ncclAllReduce(content, right, COUNT, type, of_host, host, NULL));
            read_memory(got, memory, bytes);
            for (size_t i = 0; i < bytes; i += size_of_type(type)) {
                int both = is_nan(type, got + i) && is_nan(type, right + i) && op != ncclMax && op != ncclMin;
                CHECK(both || !memcmp(got + i, right + i, size_of_type(type)),
                      "type %d, %s, element %zu: 0x%llx, not 0x%llx", type, names[op], i / size_of_type(type),
                      (unsigned long long)magnitude(type, got + i), (unsigned long long)magnitude(type, right + i));
            }
            compared++;
        }
        free_memory(memory);
        free(content);
        free(right);
        free(got);
    }
    CHECK(compared == 72, "%d", compared);
    OK(ncclCommDestroy(host));
    OK(ncclCommDestroy(gpu));
}

/* Collectives by plans of files: those of the folder CLIENT_PLANS that are for as many ranks. They have what built-in algorithms lack:
   phases, scratch, local sums, and chunks that are copied first. */
static void plans(struct seat seat) {
    ncclComm_t first, comm;
    ncclUniqueId id;
    const char *folder = getenv("CLIENT_PLANS");
    struct dirent **entries;
    int done = 0, count = scandir(folder, &entries, NULL, alphasort);
    CHECK(count > 10, "%s has no plans", folder);
    OK(ncclCommInitRank(&first, seat.ranks, seat.id, seat.rank));
    void *travels = new_memory(sizeof id);
    for (int i = 0; i < count; i++) {
        char options[4096];
        if (!strstr(entries[i]->d_name, ".json")) continue;
        snprintf(options, sizeof options, "{\"device\":\"%s\",\"plans\":[\"%s/%s\"]}", on_gpus() ? "cuda" : "cpu", folder,
                 entries[i]->d_name);
        if (seat.rank == 0) OK(ncclGetUniqueId(&id));
        write_memory(travels, &id, sizeof id);
        OK(ncclBcast(travels, sizeof id, ncclUint8, 0, first, stream()));
        read_memory(&id, travels, sizeof id);
        if (synclineCommInit(&comm, seat.ranks, &id, seat.rank, options) != ncclSuccess) {
            CHECK(strstr(ncclGetLastError(NULL), "this one is for"), "%s", ncclGetLastError(NULL));
            continue;
        }
        check_plain(comm, seat.rank, seat.ranks, 1001, 0);
        check_plain(comm, seat.rank, seat.ranks, 120003, 1);
        OK(ncclCommDestroy(comm));
        done++;
    }
    CHECK(done > 0, "no plan for %d ranks", seat.ranks);
    free_memory(travels);
    OK(ncclCommDestroy(first));
}

/* How long an all-reduce takes, of CLIENT_BYTES bytes. For a person: nothing is expected of it. */
static void timed(struct seat seat) {
    enum { CALLS = 20 };
    const char *said = getenv("CLIENT_BYTES");
    size_t bytes = said ? strtoull(said, NULL, 10) : 1 << 20;
    ncclComm_t comm;
    ncclResult_t state;
    void *vector = new_memory(bytes);
    OK(ncclCommInitRank(&comm, seat.ranks, seat.id, seat.rank));
    double start = 0;
    for (int call = -3; call < CALLS; call++) {
        struct timespec time;
        if (call == 0) {
            synchronize();
            clock_gettime(CLOCK_MONOTONIC, &time);
            start = (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
        }
        OK(ncclAllReduce(vector, vector, bytes / 4, ncclFloat32, ncclSum, comm, stream()));
        if (call < CALLS - 1) continue;
        synchronize();
        clock_gettime(CLOCK_MONOTONIC, &time);
        double taken = ((double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3 - start) / CALLS;
        if (seat.rank == 0) printf("        %.0f us, %.2f GB/s\n", taken, (double)bytes / taken / 1e3);
    }
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclSuccess, "%s", ncclGetLastError(comm));
    free_memory(vector);
    OK(ncclCommDestroy(comm));
}

int bits(const char *scenario, struct seat seat) {
    if (!strcmp(scenario, "bits")) return same_bits(seat), 1;
    if (!strcmp(scenario, "plans")) return plans(seat), 1;
    if (!strcmp(scenario, "timed")) return timed(seat), 1;
    return 0;
}
