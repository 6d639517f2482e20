/* A program that is linked with a libnccl.so.2.
   forwarded symbols NAME...: says which file each function comes from.
   forwarded calls RANK RANKS FILE: makes calls that NCCL is to serve, and prints what fails. */
#include "common.h"

#include <dlfcn.h>
#include <unistd.h>

/* fake_cuda.c */
int cuCtxGetCurrent(void **context);
int cuCtxSetCurrent(void *context);

static void calls(int rank, int ranks, const char *path) {
    ncclUniqueId id;
    ncclComm_t comm, part, none = (ncclComm_t)&id, of_group[2], all[3];
    ncclConfig_t config = SYNCLINE_NCCL_CONFIG;
    ncclRedOp_t op;
    ncclResult_t state;
    void *stream = (void *)0x77, *memory;
    int count, device, own, devices[] = {3, 2, 1};
    char name[4096], from[] = "what is sent", to[sizeof from] = {0};
    /* Functions of later versions are only in Syncline's. */
    ncclResult_t (*all_to_all)(const void *, void *, size_t, ncclDataType_t, ncclComm_t, syncline_stream);
    *(void **)&all_to_all = dlsym(RTLD_DEFAULT, "ncclAlltoAll");
    config.maxCTAs = 7;
    cuCtxSetCurrent((void *)5);
    snprintf(name, sizeof name, "%s.new", path);
    if (rank == 0) {
        OK(ncclGetUniqueId(&id));
        FILE *file = fopen(name, "wb");
        CHECK(file && fwrite(&id, sizeof id, 1, file) == 1 && !fclose(file) && !rename(name, path), "%s", path);
    } else {
        FILE *file = NULL;
        for (int tries = 0; !(file = fopen(path, "rb")) && tries < 3000; tries++) usleep(10000);
        CHECK(file && fread(&id, sizeof id, 1, file) == 1, "%s", path);
    }
    int code = ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
    if (code) {
        printf("result %d: %s\n", code, ncclGetLastError(NULL));
        return;
    }
    OK(ncclCommCount(comm, &count));
    OK(ncclCommUserRank(comm, &own));
    OK(ncclCommCuDevice(comm, &device));
    CHECK(count == ranks && own == rank && device == 5, "%d %d %d", count, own, device);
    OK(ncclCommGetAsyncError(comm, &state));
    OK(ncclAllReduce(from, to, sizeof from, ncclInt8, ncclSum, comm, stream));
    CHECK(!strcmp(from, to), "%s", to);
    OK(ncclBcast(to, 1, ncclInt8, 0, comm, stream));
    REFUSED(ncclInvalidUsage, "the fake does not reduce", ncclReduce(from, to, 1, ncclInt8, 0, 0, comm, stream));
    REFUSED(ncclInvalidUsage, "has no ncclAlltoAll", all_to_all(from, to, 1, ncclInt8, comm, stream));
    OK(ncclGroupStart());
    OK(ncclGroupStart());
    OK(ncclSend(from, 1, ncclInt8, 0, comm, stream));
    OK(ncclGroupEnd());
    OK(ncclRecv(to, 1, ncclInt8, 0, comm, stream));
    OK(ncclGroupEnd());
    OK(ncclRedOpCreatePreMulSum(&op, from, ncclInt8, ncclScalarHostImmediate, comm));
    OK(ncclRedOpDestroy(op, comm));
    OK(ncclMemAlloc(&memory, 64));
    OK(ncclMemFree(memory));
    OK(ncclCommSplit(comm, -1, 0, &none, NULL));
    CHECK(none == NULL, "a communicator without color");
    OK(ncclCommSplit(comm, 1, 0, &part, NULL));
    OK(ncclAllGather(from, to, 1, ncclInt8, part, stream));
    OK(ncclCommDestroy(part));
    /* Two ranks of this process in a group. */
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        cuCtxSetCurrent((void *)(uintptr_t)(10 + i));
        OK(ncclCommInitRank(&of_group[i], 2, id, i));
    }
    cuCtxSetCurrent((void *)20);
    OK(ncclGroupEnd());
    /* Each is on the GPU that was current at its call, and what is current now has not changed. */
    void *current;
    CHECK(!cuCtxGetCurrent(&current) && current == (void *)20, "%p", current);
    for (int i = 0; i < 2; i++) {
        OK(ncclCommCuDevice(of_group[i], &device));
        CHECK(device == 10 + i, "%d", device);
    }
    for (int i = 0; i < 2; i++) OK(ncclReduceScatter(from, to, 1, ncclInt8, ncclSum, of_group[i], stream));
    for (int i = 0; i < 2; i++) OK(ncclCommAbort(of_group[i]));
    OK(ncclCommInitAll(all, 3, devices));
    for (int i = 0; i < 3; i++) OK(ncclCommDestroy(all[i]));
    EXPECT(ncclInProgress, ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
    REFUSED(ncclInvalidArgument, "has not been destroyed", ncclCommDestroy(comm));
    REFUSED(ncclInvalidArgument, "has not been destroyed", ncclCommGetAsyncError(comm, &state));
    /* An id that rank 0 has got from NCCL, without Syncline. */
    for (int i = 0; i < 128; i++) id.internal[i] = (char)(i * 3);
    OK(ncclCommInitRank(&comm, 1, id, 0));
    OK(ncclCommDestroy(comm));
    printf("served\n");
}

int main(int argc, char **argv) {
    CHECK(argc >= 3, "symbols NAME... | calls RANK RANKS FILE");
    if (!strcmp(argv[1], "calls")) {
        calls(atoi(argv[2]), atoi(argv[3]), argv[4]);
        return 0;
    }
    for (int i = 2; i < argc; i++) {
        Dl_info info;
        void *address = dlsym(RTLD_DEFAULT, argv[i]);
        CHECK(address && dladdr(address, &info), "%s is nowhere", argv[i]);
        printf("%s %s\n", argv[i], info.dli_fname);
    }
    return 0;
}
