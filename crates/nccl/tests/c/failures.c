/* Ranks that die, stop, stay away, abort, fork or ask for something else. */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static ncclComm_t join(struct seat seat) {
    ncclComm_t comm;
    OK(ncclCommInitRank(&comm, seat.ranks, seat.id, seat.rank));
    check_sum(comm, seat.rank, seat.ranks, 100);
    /* The last rank, which is the one that fails, goes on when the others have all this behind them. */
    int last = seat.ranks - 1;
    void *done = new_memory(1);
    if (seat.rank < last) OK(ncclSend(done, 1, ncclInt8, last, comm, stream()));
    for (int peer = 0; peer < last && seat.rank == last; peer++) OK(ncclRecv(done, 1, ncclInt8, peer, comm, stream()));
    synchronize();
    free_memory(done);
    return comm;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The result of a call: on a GPU, what is found when the stream has got past it. */
static ncclResult_t sum_of(ncclComm_t comm, size_t count) {
    static __thread void *vector;
    if (!vector) vector = new_memory(4000);
    ncclResult_t code = ncclAllReduce(vector, vector, count, ncclFloat32, ncclSum, comm, stream());
    if (!on_gpus() || code != ncclSuccess) return code;
    synchronize();
    ncclResult_t asked = ncclCommGetAsyncError(comm, &code);
    return asked != ncclSuccess ? asked : code;
}

/* Waits for a failure that arrives although no call is under way. */
static void expect_async(ncclComm_t comm, ncclResult_t code, const char *text) {
    ncclResult_t state = ncclSuccess;
    for (int tries = 0; state == ncclSuccess && tries < 2000; tries++) {
        usleep(10000);
        OK(ncclCommGetAsyncError(comm, &state));
    }
    CHECK(state == code, "%d: %s", state, ncclGetLastError(comm));
    CHECK(strstr(ncclGetLastError(comm), text), "%s", ncclGetLastError(comm));
}

static void *abort_soon(void *comm) {
    usleep(300000);
    OK(ncclCommAbort(comm));
    return NULL;
}

/* A call that waits for the others returns when another thread aborts; the others learn of it, and abort too. */
static void aborted(struct seat seat) {
    ncclComm_t comm = join(seat);
    if (seat.rank == 0) {
        pthread_t thread;
        double start = now();
        CHECK(!pthread_create(&thread, NULL, abort_soon, comm), "no thread");
        if (on_gpus()) {
            /* The communicator is no more, or about to be, when the stream has got past it. */
            ncclResult_t code = sum_of(comm, 1000);
            CHECK(code == ncclInvalidArgument || code == ncclInvalidUsage, "%d", code);
        } else {
            REFUSED(ncclInvalidUsage, "abort", sum_of(comm, 1000));
        }
        CHECK(now() - start < 5, "%g s", now() - start);
        pthread_join(thread, NULL);
        /* The others hear of it, and not of the end of this process. */
        usleep(500000);
        EXPECT(ncclInvalidArgument, sum_of(comm, 1000));
        return;
    }
    expect_async(comm, ncclRemoteError, "rank 0 has aborted");
    REFUSED(ncclRemoteError, "rank 0 has aborted", sum_of(comm, 1000));
    OK(ncclCommAbort(comm));
}

/* The last rank is killed while the others wait for it. */
static void killed(struct seat seat) {
    ncclComm_t comm = join(seat);
    if (seat.rank == seat.ranks - 1) raise(SIGKILL);
    REFUSED(ncclRemoteError, "has died", sum_of(comm, 1000));
    OK(ncclCommAbort(comm));
}

/* The last rank is killed while the others do nothing. */
static void killed_silently(struct seat seat) {
    ncclComm_t comm = join(seat);
    if (seat.rank == seat.ranks - 1) raise(SIGKILL);
    expect_async(comm, ncclRemoteError, "has died");
    REFUSED(ncclRemoteError, "has died", sum_of(comm, 1000));
    OK(ncclCommDestroy(comm));
}

/* The last rank is stopped. Nobody but the test continues it. */
static void stopped(struct seat seat) {
    ncclComm_t comm = join(seat);
    if (seat.rank == seat.ranks - 1) raise(SIGSTOP);
    REFUSED(ncclRemoteError, "does not answer", sum_of(comm, 1000));
    OK(ncclCommAbort(comm));
}

/* The last rank does not make a call. */
static void absent(struct seat seat) {
    ncclComm_t comm = join(seat);
    if (seat.rank == seat.ranks - 1) {
        expect_async(comm, ncclRemoteError, "has not made call");
    } else {
        REFUSED(ncclRemoteError, "has not made call", sum_of(comm, 1000));
    }
    OK(ncclCommAbort(comm));
}

/* The last rank leaves instead of making a call. */
static void left(struct seat seat) {
    ncclComm_t comm = join(seat);
    if (seat.rank < seat.ranks - 1) REFUSED(ncclRemoteError, "left the communicator", sum_of(comm, 1000));
    OK(ncclCommDestroy(comm));
}

/* The last rank asks for something else. */
static void different(struct seat seat) {
    ncclComm_t comm = join(seat);
    REFUSED(ncclInvalidUsage, "999", sum_of(comm, seat.rank == seat.ranks - 1 ? 999 : 1000));
    OK(ncclCommAbort(comm));
}

static int is_forked;

/* Asked by the address sanitizer before it looks for leaks at the end of a process. In a forked child all that belonged
   to threads of the parent is lost, as they do not exist there. */
int __lsan_is_turned_off(void) { return is_forked; }

/* A forked child cannot use the communicator but one of its own, and the parent goes on, also after the child has ended. */
static void forked(struct seat seat) {
    ncclComm_t comm = join(seat);
    pid_t child = fork();
    if (child == 0) {
        ncclResult_t state;
        is_forked = 1;
        REFUSED(ncclInvalidUsage, "forked", sum_of(comm, 1000));
        REFUSED(ncclInvalidUsage, "forked", ncclCommGetAsyncError(comm, &state));
        REFUSED(ncclInvalidUsage, "forked", ncclCommAbort(comm));
        REFUSED(ncclInvalidUsage, "forked", ncclCommDestroy(comm));
        /* It can make one of its own. */
        ncclComm_t own;
        ncclUniqueId id;
        OK(ncclGetUniqueId(&id));
        OK(ncclCommInitRank(&own, 1, id, 0));
        check_sum(own, 0, 1, 1000);
        OK(ncclCommDestroy(own));
        exit(0);
    }
    int status;
    check_sum(comm, seat.rank, seat.ranks, 1000);
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child has ended with %d", status);
    check_sum(comm, seat.rank, seat.ranks, 1000);
    OK(ncclCommDestroy(comm));
}

/* A split of which the last rank knows nothing. */
static void split_alone(struct seat seat) {
    ncclComm_t comm = join(seat), part = (ncclComm_t)&seat;
    if (seat.rank == seat.ranks - 1) {
        expect_async(comm, ncclRemoteError, "not taken part");
    } else {
        REFUSED(ncclRemoteError, "not taken part", ncclCommSplit(comm, 0, 0, &part, NULL));
        CHECK(part == NULL, "a communicator that is not");
    }
    OK(ncclCommAbort(comm));
}

/* No NCCL and no SYNCLINE_DEVICE=cpu, on one rank at least: all ranks are told. */
static void without_nccl(struct seat seat) {
    ncclComm_t comm;
    int code = ncclCommInitRank(&comm, seat.ranks, seat.id, seat.rank);
    printf("result %d: %s\n", code, ncclGetLastError(NULL));
    CHECK(comm == NULL, "a communicator that is not");
}

int failures(const char *scenario, struct seat seat) {
    static const struct {
        const char *name;
        void (*run)(struct seat);
    } scenarios[] = {{"aborted", aborted}, {"killed", killed}, {"killed_silently", killed_silently},
                     {"stopped", stopped},
                     {"absent", absent}, {"left", left}, {"different", different}, {"forked", forked},
                     {"split_alone", split_alone}, {"without_nccl", without_nccl}};
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (strcmp(scenario, scenarios[i].name)) continue;
        scenarios[i].run(seat);
        return 1;
    }
    return 0;
}
