/* Communicators: made in all ways, several at once, split; groups; arguments that are refused. */
#include "common.h"

#include <pthread.h>
#include <unistd.h>

static ncclComm_t join(struct seat seat) {
    ncclComm_t comm;
    int count, rank, device;
    ncclResult_t state = -1;
    OK(ncclCommInitRank(&comm, seat.ranks, seat.id, seat.rank));
    OK(ncclCommCount(comm, &count));
    OK(ncclCommUserRank(comm, &rank));
    OK(ncclCommCuDevice(comm, &device));
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK(count == seat.ranks && rank == seat.rank && device == gpu_of(rank) && state == ncclSuccess, "%d %d %d %d", count,
          rank, device, state);
    return comm;
}

static void all(struct seat seat) {
    ncclComm_t comm = join(seat);
    check_all(comm, seat.rank, seat.ranks, 17, 1);
    for (size_t count = 0; count < 200000; count = count * 7 + 1) check_exchange(comm, seat.rank, seat.ranks, count);
    OK(ncclCommFinalize(comm));
    float vector[2] = {0};
    /* The text of the last error may be that of another thread here. */
    EXPECT(ncclInvalidUsage, ncclAllReduce(vector, vector, 2, ncclFloat32, ncclSum, comm, NULL));
    OK(ncclCommDestroy(comm));
    EXPECT(ncclInvalidArgument, ncclCommDestroy(comm));
}

/* Two communicators at once, the second with an order of its own, and with settings; both in one group. */
static void several(struct seat seat) {
    ncclComm_t first = join(seat), second, third;
    ncclUniqueId ids[2];
    ncclConfig_t config = SYNCLINE_NCCL_CONFIG;
    config.blocking = 0;
    /* The new ids travel over the first communicator. */
    if (seat.rank == 0) OK(ncclGetUniqueId(&ids[0]));
    if (seat.rank == 0) OK(ncclGetUniqueId(&ids[1]));
    void *travels = new_memory(sizeof ids);
    write_memory(travels, ids, sizeof ids);
    OK(ncclBcast(travels, sizeof ids, ncclUint8, 0, first, stream()));
    read_memory(ids, travels, sizeof ids);
    free_memory(travels);
    void *of_second = new_stream();
    float *vectors[4];
    for (int i = 0; i < 4; i++) vectors[i] = new_memory(4000);
    int own = seat.ranks - 1 - seat.rank;
    OK(ncclCommInitRankConfig(&second, seat.ranks, ids[0], own, &config));
    OK(ncclCommInitRankScalable(&third, seat.ranks, seat.rank, 1, &ids[1], NULL));
    for (int i = 0; i < 5; i++) {
        float mine[1000], sum[1000], mine_too[1000], sum_too[1000];
        for (int k = 0; k < 1000; k++) mine[k] = (float)(seat.rank + k), mine_too[k] = (float)(own * k);
        /* The second communicator has a stream of its own. */
        write_memory(vectors[0], mine, 4000);
        void *of_first = use_stream(of_second);
        write_memory(vectors[2], mine_too, 4000);
        use_stream(of_first);
        OK(ncclGroupStart());
        OK(ncclAllReduce(vectors[0], vectors[1], 1000, ncclFloat32, ncclSum, first, of_first));
        OK(ncclAllReduce(vectors[2], vectors[3], 1000, ncclFloat32, ncclMax, second, of_second));
        OK(ncclGroupEnd());
        read_memory(sum, vectors[1], 4000);
        use_stream(of_second);
        read_memory(sum_too, vectors[3], 4000);
        use_stream(of_first);
        for (int k = 0; k < 1000; k++) {
            CHECK(sum[k] == (float)(seat.ranks * (seat.ranks - 1) / 2 + seat.ranks * k), "%d: %g", k, sum[k]);
            CHECK(sum_too[k] == (float)((seat.ranks - 1) * k), "%d: %g", k, sum_too[k]);
        }
        check_sum(second, own, seat.ranks, 100);
        check_sum(third, seat.rank, seat.ranks, 1000);
        check_sum(first, seat.rank, seat.ranks, 10);
    }
    for (int i = 0; i < 4; i++) free_memory(vectors[i]);
    OK(ncclCommDestroy(second));
    check_sum(first, seat.rank, seat.ranks, 10);
    OK(ncclGroupStart());
    OK(ncclCommDestroy(third));
    OK(ncclCommDestroy(first));
    OK(ncclGroupEnd());
}

struct own {
    ncclComm_t comm;
    int rank, ranks;
};

static void *work(void *pointer) {
    struct own *own = pointer;
    use_gpu_of(own->rank);
    for (size_t i = 0; i < 40; i++) {
        check_sum(own->comm, own->rank, own->ranks, 1 + 997 * i);
        check_exchange(own->comm, own->rank, own->ranks, 211 * i);
    }
    return NULL;
}

/* Three communicators of the same ranks, each used by a thread of its own at once. */
static void concurrent(struct seat seat) {
    struct own owns[3] = {{join(seat), seat.rank, seat.ranks}};
    pthread_t threads[3];
    for (int i = 1; i < 3; i++) {
        owns[i] = owns[0];
        OK(ncclCommSplit(owns[0].comm, 0, seat.rank, &owns[i].comm, NULL));
    }
    for (int i = 0; i < 3; i++) CHECK(!pthread_create(&threads[i], NULL, work, &owns[i]), "no thread");
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) OK(ncclCommDestroy(owns[i].comm));
}

/* Even and odd ranks, in reverse order; the last rank has no color. Then all ranks again, of a part. */
static void split(struct seat seat) {
    ncclComm_t comm = join(seat), part, again;
    int is_out = seat.rank == seat.ranks - 1, color = is_out ? NCCL_SPLIT_NOCOLOR : seat.rank % 2;
    part = (ncclComm_t)&part;
    OK(ncclCommSplit(comm, color, -seat.rank, &part, NULL));
    if (is_out) {
        CHECK(part == NULL, "a communicator without color");
    } else {
        int members = 0, behind = 0, rank, ranks;
        for (int other = 0; other < seat.ranks - 1; other++) {
            members += other % 2 == color;
            behind += other % 2 == color && other > seat.rank;
        }
        OK(ncclCommUserRank(part, &rank));
        OK(ncclCommCount(part, &ranks));
        CHECK(rank == behind && ranks == members, "%d of %d, not %d of %d", rank, ranks, behind, members);
        check_sum(part, rank, ranks, 1234);
        OK(ncclCommSplit(part, 7, rank, &again, NULL));
        OK(ncclCommDestroy(part));
        check_all(again, rank, ranks, 3, 1);
        OK(ncclCommDestroy(again));
    }
    check_sum(comm, seat.rank, seat.ranks, 55);
    OK(ncclCommDestroy(comm));
}

/* All ranks in one thread: they are made in a group, split in a group, and call in groups. */
static void one_thread(struct seat seat) {
    if (seat.rank > 0) return;
    int ranks = 4;
    ncclComm_t comms[3][4];
    ncclUniqueId id;
    float *content = malloc(400000 * sizeof(float)), scalar = 3;
    void *vectors[4], *streams[4];
    ncclRedOp_t ops[4];
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    for (int rank = 0; rank < ranks; rank++) {
        ncclResult_t state;
        use_gpu_of(rank);
        streams[rank] = stream();
        vectors[rank] = new_memory(400000 * sizeof(float));
        OK(ncclCommInitRank(&comms[0][rank], ranks, id, rank));
        OK(ncclCommGetAsyncError(comms[0][rank], &state));
        CHECK(state == ncclInProgress, "%d", state);
    }
    OK(ncclGroupEnd());
    OK(ncclCommInitAll(comms[1], ranks, NULL));
    OK(ncclGroupStart());
    for (int rank = 0; rank < ranks; rank++) OK(ncclCommSplit(comms[1][rank], 0, -rank, &comms[2][rank], NULL));
    OK(ncclGroupEnd());
    for (int which = 0; which < 3; which++) {
        for (int rank = 0; rank < ranks; rank++) {
            int number;
            OK(ncclCommUserRank(comms[which][rank], &number));
            CHECK(number == (which == 2 ? ranks - 1 - rank : rank), "%d", number);
            for (int k = 0; k < 400000; k++) content[k] = (float)(rank + k % 10);
            use_gpu_of(rank);
            use_stream(streams[rank]);
            write_memory(vectors[rank], content, 400000 * sizeof(float));
        }
        OK(ncclGroupStart());
        for (int rank = 0; rank < ranks; rank++) {
            OK(ncclRedOpCreatePreMulSum(&ops[rank], &scalar, ncclFloat32, ncclScalarHostImmediate, comms[which][rank]));
            OK(ncclAllReduce(vectors[rank], vectors[rank], 400000, ncclFloat32, ops[rank], comms[which][rank],
                             streams[rank]));
            /* The call keeps the factor. */
            OK(ncclRedOpDestroy(ops[rank], comms[which][rank]));
        }
        OK(ncclGroupEnd());
        for (int rank = 0; rank < ranks; rank++) {
            use_gpu_of(rank);
            use_stream(streams[rank]);
            read_memory(content, vectors[rank], 400000 * sizeof(float));
            for (int k = 0; k < 400000; k++) {
                CHECK(content[k] == (float)(3 * (6 + 4 * (k % 10))), "%d: %g", k, content[k]);
            }
        }
        OK(ncclGroupStart());
        for (int rank = 0; rank < ranks; rank++) OK(ncclCommDestroy(comms[which][rank]));
        OK(ncclGroupEnd());
    }
    for (int rank = 0; rank < ranks; rank++) free_memory(vectors[rank]);
}

/* Many calls on several streams before anything is waited for; each stream gets on when its own calls are done. There are 3, or as many
   as CLIENT_STREAMS says: more than the hardware has queues show whether streams that wait hold up those that work. */
static void ahead(struct seat seat) {
    enum { MOST = 64, COUNT = 30000 };
    const char *said = getenv("CLIENT_STREAMS");
    const int STREAMS = said ? atoi(said) : 3, CALLS = said ? 2 : 12;
    ncclComm_t comm = join(seat);
    void *streams[MOST], *vectors[MOST];
    CHECK(STREAMS <= MOST, "%d streams", STREAMS);
    float *content = malloc(COUNT * sizeof(float));
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = i ? new_stream() : stream();
        vectors[i] = new_memory(COUNT * sizeof(float));
    }
    check_sum(comm, seat.rank, seat.ranks, COUNT);
    for (int i = 0; i < STREAMS; i++) {
        use_stream(streams[i]);
        for (int k = 0; k < COUNT; k++) content[k] = (float)(seat.rank + i + k % 7);
        write_memory(vectors[i], content, COUNT * sizeof(float));
    }
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < STREAMS; i++) {
            if (call % 2) {
                OK(ncclAllReduce(vectors[i], vectors[i], COUNT, ncclFloat32, ncclAvg, comm, streams[i]));
            } else {
                int next = (seat.rank + 1) % seat.ranks, before = (seat.rank + seat.ranks - 1) % seat.ranks;
                OK(ncclGroupStart());
                OK(ncclSend(vectors[i], 100, ncclFloat32, next, comm, streams[i]));
                OK(ncclRecv((float *)vectors[i] + 200, 100, ncclFloat32, before, comm, streams[i]));
                OK(ncclGroupEnd());
                OK(ncclAllReduce(vectors[i], vectors[i], COUNT, ncclFloat32, ncclMax, comm, streams[i]));
            }
        }
    }
    for (int i = STREAMS - 1; i >= 0; i--) {
        use_stream(streams[i]);
        read_memory(content, vectors[i], COUNT * sizeof(float));
        /* After the first maximum, all ranks have the same. */
        for (int k = 0; k < COUNT; k++) {
            float right = (float)(seat.ranks - 1 + i + (k >= 200 && k < 300 ? k - 200 : k) % 7);
            /* An average of three is rounded, time and again. */
            float error = content[k] > right ? content[k] - right : right - content[k];
            CHECK(error <= 1e-5f * right, "stream %d, %d: %g, not %g", i, k, content[k], right);
        }
        free_memory(vectors[i]);
    }
    OK(ncclCommDestroy(comm));
}

/* A stream of which a graph is made is refused, also in a group; afterwards it is as good as before. */
static void captured(struct seat seat) {
    ncclComm_t comm = join(seat);
    void *vector = new_memory(4000);
    capture(1);
    REFUSED(ncclInvalidUsage, "captured", ncclAllReduce(vector, vector, 1000, ncclFloat32, ncclSum, comm, stream()));
    OK(ncclGroupStart());
    REFUSED(ncclInvalidUsage, "captured", ncclSend(vector, 8, ncclFloat32, 0, comm, stream()));
    EXPECT(ncclInvalidUsage, ncclGroupEnd());
    capture(0);
    check_sum(comm, seat.rank, seat.ranks, 1000);
    free_memory(vector);
    OK(ncclCommDestroy(comm));
}

/* The driver of a rank fails in a call: all ranks learn of it, and no stream is held up. */
static void driver_fails(struct seat seat) {
    ncclComm_t comm = join(seat);
    void *vector = new_memory(400000);
    ncclResult_t state = ncclSuccess;
    for (int i = 0; i < 1000 && state == ncclSuccess; i++) {
        if (ncclAllReduce(vector, vector, 100000, ncclFloat32, ncclSum, comm, stream())) break;
        synchronize();
        OK(ncclCommGetAsyncError(comm, &state));
    }
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclUnhandledCudaError, "%d: %s", state, ncclGetLastError(comm));
    CHECK(strstr(ncclGetLastError(comm), "on rank 1, cu"), "%s", ncclGetLastError(comm));
    CHECK(strstr(ncclGetLastError(comm), "fails with CUDA_ERROR_UNKNOWN: unknown error"), "%s", ncclGetLastError(comm));
    synchronize();
    free_memory(vector);
    OK(ncclCommAbort(comm));
}

/* All ranks but the last make a call when the last one has made it and copies the result to memory that is not pinned, which
   waits for the call. Returns the first number of the result. */
static float read_early(ncclComm_t comm, struct seat seat, float *vector) {
    float content[1000];
    for (int i = 0; i < 1000; i++) content[i] = 2;
    write_memory(vector, content, sizeof content);
    int is_last = seat.rank == seat.ranks - 1;
    if (!is_last) usleep(500000);
    OK(ncclAllReduce(vector, vector, 1000, ncclFloat32, ncclSum, comm, stream()));
    if (!is_last) synchronize();
    read_waiting(content, vector, sizeof content);
    synchronize();
    return content[0];
}

/* A copy that waits for the first call of a communicator holds the driver up, but not in what the call takes. */
static void waiting(struct seat seat) {
    ncclComm_t comm = join(seat);
    float *vector = new_memory(4000);
    for (int i = 0; i < 3; i++) {
        float sum = read_early(comm, seat, vector);
        CHECK(sum == 2 * seat.ranks, "%g", sum);
    }
    free_memory(vector);
    OK(ncclCommDestroy(comm));
}

/* It holds the driver up in all: all ranks learn of it, and no stream waits for ever. */
static void held_up(struct seat seat) {
    ncclComm_t comm = join(seat);
    float *vector = new_memory(4000);
    ncclResult_t state = ncclSuccess;
    read_early(comm, seat, vector);
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclUnhandledCudaError, "%d: %s", state, ncclGetLastError(comm));
    CHECK(strstr(ncclGetLastError(comm), "of the driver of CUDA has not returned for 1 s"), "%s", ncclGetLastError(comm));
    CHECK(strstr(ncclGetLastError(comm), "synchronize the stream"), "%s", ncclGetLastError(comm));
    free_memory(vector);
    OK(ncclCommAbort(comm));
}

/* Arguments that are refused. The communicator works on. */
static void refusals(struct seat seat) {
    ncclComm_t comm = join(seat), other;
    float vector[8] = {0};
    ncclConfig_t config = SYNCLINE_NCCL_CONFIG;
    ncclUniqueId garbage = {{1, 2, 3}};
    ncclRedOp_t op, wrong_type;
    ncclSimInfo_t info = {sizeof info, 0x74685283, 22203, -1};
    int version, one = 1, root = 0;
    void *handle, *memory;
    OK(ncclGetVersion(&version));
    CHECK(version == 22105, "%d", version);
    OK(pncclGetVersion(&version));
    REFUSED(ncclInvalidArgument, "version is NULL", ncclGetVersion(NULL));
    REFUSED(ncclInvalidArgument, "comm is NULL", ncclAllReduce(vector, vector, 8, ncclFloat32, ncclSum, NULL, NULL));
    ncclComm_t strays[] = {(ncclComm_t)&vector, (ncclComm_t)16, (ncclComm_t)-1,
                           (ncclComm_t)(uintptr_t)0x5953fffffffffff0};
    for (int i = 0; i < 4; i++) {
        ncclComm_t stray = strays[i];
        REFUSED(ncclInvalidArgument, "comm is 0x", ncclAllReduce(vector, vector, 8, ncclFloat32, ncclSum, stray, NULL));
        REFUSED(ncclInvalidArgument, "comm is 0x", ncclCommDestroy(stray));
        REFUSED(ncclInvalidArgument, "comm is 0x", ncclCommAbort(stray));
        REFUSED(ncclInvalidArgument, "comm is 0x", ncclCommGetAsyncError(stray, &version));
        REFUSED(ncclInvalidArgument, "comm is 0x", ncclBroadcast(vector, vector, 1, ncclInt8, 0, stray, NULL));
        CHECK(ncclGetLastError(stray) != NULL, "no text");
    }
    REFUSED(ncclInvalidArgument, "ncclAllReduce: datatype is 12; accepted: 0",
            ncclAllReduce(vector, vector, 8, 12, ncclSum, comm, NULL));
    REFUSED(ncclInvalidArgument, "datatype is -1", ncclAllGather(vector, vector, 8, -1, comm, NULL));
    REFUSED(ncclInvalidArgument, "op is 77", ncclAllReduce(vector, vector, 8, ncclFloat32, 77, comm, NULL));
    REFUSED(ncclInvalidArgument, "op is -1", ncclReduceScatter(vector, vector, 8, ncclFloat32, -1, comm, NULL));
    REFUSED(ncclInvalidArgument, "root is -1; accepted: 0 to",
            ncclBroadcast(vector, vector, 8, ncclFloat32, -1, comm, NULL));
    REFUSED(ncclInvalidArgument, "root is", ncclReduce(vector, vector, 8, ncclFloat32, 0, seat.ranks, comm, NULL));
    REFUSED(ncclInvalidArgument, "peer is", ncclSend(vector, 8, ncclFloat32, seat.ranks, comm, NULL));
    REFUSED(ncclInvalidArgument, "sendbuff is NULL", ncclAllReduce(NULL, vector, 1, ncclFloat32, 0, comm, NULL));
    REFUSED(ncclInvalidArgument, "recvbuff is NULL", ncclAllReduce(vector, NULL, 8, ncclFloat32, 0, comm, NULL));
    REFUSED(ncclInvalidArgument, "sendbuff is NULL",
            ncclBroadcast(NULL, vector, 1, ncclFloat32, seat.rank, comm, NULL));
    REFUSED(ncclInvalidArgument, "recvbuff is NULL",
            ncclReduce(vector, NULL, 1, ncclFloat32, 0, seat.rank, comm, NULL));
    REFUSED(ncclInvalidArgument, "recvbuff is NULL", ncclRecv(NULL, 1, ncclFloat32, 0, comm, NULL));
    REFUSED(ncclInvalidArgument, "count is", ncclAllReduce(vector, vector, SIZE_MAX / 2, ncclFloat32, 0, comm, NULL));
    REFUSED(ncclInvalidArgument, "stream is", ncclAllReduce(vector, vector, 8, ncclFloat32, 0, comm, &one));
    REFUSED(ncclInvalidArgument, "color is -2", ncclCommSplit(comm, -2, 0, &other, NULL));
    REFUSED(ncclInvalidArgument, "rank is 9", ncclCommInitRank(&other, 2, seat.id, 9));
    REFUSED(ncclInvalidArgument, "nranks is 0", ncclCommInitRank(&other, 0, seat.id, 0));
    REFUSED(ncclInvalidArgument, "id of the communicator", ncclCommInitRank(&other, 2, garbage, 0));
    config.magic = 5;
    REFUSED(ncclInvalidArgument, "config->magic", ncclCommInitRankConfig(&other, 2, seat.id, 0, &config));
    REFUSED(ncclInvalidUsage, "without ncclGroupStart", ncclGroupEnd());
    REFUSED(ncclInvalidArgument, "residence is 2",
            ncclRedOpCreatePreMulSum(&op, vector, ncclFloat32, 2, comm));
    OK(ncclRedOpCreatePreMulSum(&op, vector, ncclFloat32, ncclScalarDevice, comm));
    OK(ncclRedOpCreatePreMulSum(&wrong_type, vector, ncclFloat64, ncclScalarHostImmediate, comm));
    CHECK(op >= 5 && wrong_type >= 5 && op != wrong_type, "%d %d", op, wrong_type);
    REFUSED(ncclInvalidArgument, "datatype is float32",
            ncclAllReduce(vector, vector, 8, ncclFloat32, wrong_type, comm, NULL));
    OK(ncclRedOpDestroy(op, comm));
    REFUSED(ncclInvalidArgument, "op is", ncclRedOpDestroy(op, comm));
    REFUSED(ncclInvalidArgument, "op is 0", ncclRedOpDestroy(ncclSum, comm));
    /* A refused call takes its group with it, on all ranks alike. */
    OK(ncclGroupStart());
    OK(ncclAllReduce(vector, vector, 8, ncclFloat32, 0, comm, NULL));
    REFUSED(ncclInvalidArgument, "op is 99", ncclAllReduce(vector, vector, 8, ncclFloat32, 99, comm, NULL));
    REFUSED(ncclInvalidArgument, "a call of the group was refused", ncclGroupEnd());
    OK(ncclGroupStart());
    OK(ncclAllReduce(vector, vector, 8, ncclFloat32, 0, comm, NULL));
    REFUSED(ncclInvalidUsage, "not offered", ncclGroupSimulateEnd(&info));
    OK(ncclCommRegister(comm, vector, sizeof vector, &handle));
    OK(ncclCommDeregister(comm, handle));
    OK(ncclMemAlloc(&memory, 1000));
    CHECK((uintptr_t)memory % 128 == 0, "%p", memory);
    memset(memory, 1, 1000);
    OK(ncclMemFree(memory));
    for (int code = -1; code < 10; code++) CHECK(strlen(ncclGetErrorString(code)) > 3, "%d", code);
    /* No elements: no buffers. */
    OK(ncclAllReduce(NULL, NULL, 0, ncclFloat32, 0, comm, NULL));
    OK(ncclBroadcast(NULL, NULL, 0, ncclFloat32, root, comm, NULL));
    OK(ncclReduceScatter(NULL, NULL, 0, ncclFloat32, ncclAvg, comm, NULL));
    check_sum(comm, seat.rank, seat.ranks, 1000);
    OK(pncclAllReduce(vector, vector, 8, ncclFloat32, ncclSum, comm, NULL));
    OK(ncclCommDestroy(comm));
}

/* The call that NCCL does not have, without SYNCLINE_DEVICE=cpu. */
static void own_settings(struct seat seat) {
    ncclComm_t comm;
    REFUSED(ncclInvalidArgument, "options is {\"timeout\":1}",
            synclineCommInit(&comm, seat.ranks, &seat.id, seat.rank, "{\"timeout\":1}"));
    REFUSED(ncclInvalidArgument, "plans is /nowhere",
            synclineCommInit(&comm, seat.ranks, &seat.id, seat.rank, "{\"plans\":[\"/nowhere\"]}"));
    REFUSED(ncclInvalidArgument, "rank is -1", synclineCommInit(&comm, seat.ranks, &seat.id, -1, NULL));
    OK(synclineCommInit(&comm, seat.ranks, &seat.id, seat.rank, "{\"timeout_s\": 30}"));
    check_all(comm, seat.rank, seat.ranks, 5, 1);
    OK(ncclCommDestroy(comm));
}

/* How a communicator would carry a call out. */
static const char *plan(ncclComm_t comm, const char *collective, size_t count) {
    static _Thread_local char text[4096];
    OK(synclineCommPlan(comm, collective, count, ncclFloat32, 0, text, sizeof text));
    return text;
}

/* What a split keeps of the communicator that it is made from: the timeout, and plans for as many ranks.
   SYNCLINE_TIMEOUT is far longer, and the environment names a file with a plan for all ranks. */
static void split_keeps(struct seat seat) {
    ncclComm_t comm, same, part;
    char options[4096];
    const char *name = "\"name\":\"ring all-reduce 3\"", *direct = "\"name\":\"direct\"";
    CHECK(seat.ranks == 3, "%d ranks", seat.ranks);
    snprintf(options, sizeof options, "{\"timeout_s\": 1, \"plans\": [\"%s\"]}", getenv("PLAN"));
    OK(synclineCommInit(&comm, seat.ranks, &seat.id, seat.rank, options));
    CHECK(strstr(plan(comm, "all-reduce", 100), name), "%s", plan(comm, "all-reduce", 100));
    CHECK(strstr(plan(comm, "all-gather", 100), direct), "%s", plan(comm, "all-gather", 100));
    REFUSED(ncclInvalidArgument, "collective is \"sum\"",
            synclineCommPlan(comm, "sum", 1, ncclFloat32, 0, options, sizeof options));
    REFUSED(ncclInvalidArgument, "size is 5", synclineCommPlan(comm, "all-reduce", 1, ncclFloat32, 0, options, 5));
    OK(ncclCommSplit(comm, 0, -seat.rank, &same, NULL));
    CHECK(strstr(plan(same, "all-reduce", 100), name), "%s", plan(same, "all-reduce", 100));
    check_sum(same, seat.ranks - 1 - seat.rank, seat.ranks, 1000);
    OK(ncclCommSplit(same, seat.rank == 2 ? NCCL_SPLIT_NOCOLOR : 0, seat.rank, &part, NULL));
    if (seat.rank == 2) {
        OK(ncclCommDestroy(same));
        OK(ncclCommDestroy(comm));
        return;
    }
    CHECK(strstr(plan(part, "all-reduce", 100), direct), "%s", plan(part, "all-reduce", 100));
    check_sum(part, seat.rank, 2, 1000);
    float vector[2] = {0};
    if (seat.rank == 0) {
        REFUSED(ncclRemoteError, "within 1 s", ncclAllReduce(vector, vector, 2, ncclFloat32, ncclSum, part, NULL));
    }
    /* The other rank makes no call until it hears of that. */
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) OK(ncclCommGetAsyncError(part, &state));
    OK(ncclCommAbort(part));
    OK(ncclCommDestroy(same));
    OK(ncclCommDestroy(comm));
}

int lifecycle(const char *scenario, struct seat seat) {
    static const struct {
        const char *name;
        void (*run)(struct seat);
    } scenarios[] = {{"all", all}, {"several", several}, {"split", split},
                     {"one_thread", one_thread}, {"refusals", refusals},
                     {"own_settings", own_settings}, {"split_keeps", split_keeps},
                     {"concurrent", concurrent}, {"ahead", ahead},
                     {"captured", captured}, {"driver_fails", driver_fails},
                     {"waiting", waiting},       {"held_up", held_up}};
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (strcmp(scenario, scenarios[i].name)) continue;
        scenarios[i].run(seat);
        return 1;
    }
    return 0;
}
