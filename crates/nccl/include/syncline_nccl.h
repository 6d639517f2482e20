/* What a C program needs to call libsyncline_nccl.so: the interface of NCCL 2.21.5, and of later versions where it says
   so. Programs are normally compiled with NCCL's own header; this one is for the tests, and for machines without NCCL. */
#ifndef SYNCLINE_NCCL_H
#define SYNCLINE_NCCL_H

#include <limits.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;
typedef void *syncline_stream; /* cudaStream_t; NULL with SYNCLINE_DEVICE=cpu */

typedef struct {
    char internal[128];
} ncclUniqueId;

typedef int ncclResult_t;
enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
};

typedef int ncclDataType_t;
enum {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10, /* since 2.24 */
    ncclFloat8e5m2 = 11  /* since 2.24 */
};

typedef int ncclRedOp_t;
enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };

typedef int ncclScalarResidence_t;
enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
} ncclConfig_t;

#define SYNCLINE_NCCL_CONFIG {sizeof(ncclConfig_t), 0xcafebeefu, 22105, INT_MIN, INT_MIN, INT_MIN, INT_MIN, NULL, \
                              INT_MIN}

typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SPLIT_NOCOLOR -1

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int ids_count, ncclUniqueId *ids,
                                      ncclConfig_t *config); /* since 2.23 */
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *new_comm, ncclConfig_t *config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result);
ncclResult_t ncclCommCount(ncclComm_t comm, int *count);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank);
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device);

ncclResult_t ncclCommRegister(ncclComm_t comm, void *buffer, size_t size, void **handle);
ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle);
ncclResult_t ncclMemAlloc(void **pointer, size_t size);
ncclResult_t ncclMemFree(void *pointer);
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, syncline_stream stream);
ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, syncline_stream stream);
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           syncline_stream stream);
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       syncline_stream stream);
ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           syncline_stream stream);
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, syncline_stream stream);
ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      syncline_stream stream);
ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      syncline_stream stream);
ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                          syncline_stream stream); /* since 2.28 */
ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        syncline_stream stream); /* since 2.28 */
ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         syncline_stream stream); /* since 2.28 */

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info); /* since 2.22 */

/* A communicator on memory of the host, whatever SYNCLINE_DEVICE says. The options are NULL or JSON, with timeout_s
   (seconds that a call may wait without any progress) and plans (names of files with plans to use). */
ncclResult_t synclineCommInit(ncclComm_t *comm, int ranks, const ncclUniqueId *id, int rank, const char *options);

/* How a communicator on memory of the host would carry a collective out ("all-reduce", "broadcast", ...), as a text of
   JSON: name, chunk_bytes, chunks, slots, slot_bytes. count is that of the call; the text has size bytes at most. */
ncclResult_t synclineCommPlan(ncclComm_t comm, const char *collective, size_t count, ncclDataType_t type, int root,
                              char *text, size_t size);

/* Each function of NCCL has a second name, for profilers that offer the first: pncclAllReduce and so on. */
ncclResult_t pncclGetVersion(int *version);
ncclResult_t pncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, syncline_stream stream);

#ifdef __cplusplus
}
#endif
#endif
