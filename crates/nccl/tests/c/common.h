/* What the clients of the tests share: checks, and values of all data types. */
#ifndef COMMON_H
#define COMMON_H

#include "syncline_nccl.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the process with a message unless a condition holds. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, "\n");                                                                                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Ends the process unless a call returns a code. */
#define EXPECT(code, call)                                                                                             \
    do {                                                                                                               \
        int got_ = (call);                                                                                             \
        CHECK(got_ == (code), "result %d (%s), last error: %s", got_, ncclGetErrorString(got_),                        \
              ncclGetLastError(NULL));                                                                                 \
    } while (0)
#define OK(call) EXPECT(ncclSuccess, call)

/* Ends the process unless a call is refused with a code and a text that holds another. */
#define REFUSED(code, text, call)                                                                                      \
    do {                                                                                                               \
        EXPECT(code, call);                                                                                            \
        CHECK(strstr(ncclGetLastError(NULL), text), "last error: %s", ncclGetLastError(NULL));                         \
    } while (0)

/* A rank that runs a scenario, in a process or a thread of its own. */
struct seat {
    int rank, ranks;
    ncclUniqueId id;
};

static inline size_t size_of_type(int type) {
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return sizes[type];
}

/* Bits of exponent and mantissa of the small floating-point types. */
static inline void small_format(int type, int *exponent, int *mantissa) {
    *exponent = type == ncclFloat16 ? 5 : type == ncclBfloat16 ? 8 : type == ncclFloat8e4m3 ? 4 : 5;
    *mantissa = type == ncclFloat16 ? 10 : type == ncclBfloat16 ? 7 : type == ncclFloat8e4m3 ? 3 : 2;
}

/* Writes a value that is 0 or at least 1 and that the type has. */
static inline void put(int type, void *buffer, size_t index, double value) {
    char *at = (char *)buffer + index * size_of_type(type);
    int exponent_bits, mantissa_bits, exponent = 0;
    uint16_t bits = 0;
    switch (type) {
    case ncclInt8: *(int8_t *)at = (int8_t)value; return;
    case ncclUint8: *(uint8_t *)at = (uint8_t)value; return;
    case ncclInt32: *(int32_t *)at = (int32_t)value; return;
    case ncclUint32: *(uint32_t *)at = (uint32_t)value; return;
    case ncclInt64: *(int64_t *)at = (int64_t)value; return;
    case ncclUint64: *(uint64_t *)at = (uint64_t)value; return;
    case ncclFloat32: *(float *)at = (float)value; return;
    case ncclFloat64: *(double *)at = value; return;
    }
    small_format(type, &exponent_bits, &mantissa_bits);
    if (value != 0) {
        while (value >= 2) value /= 2, exponent++;
        bits = (uint16_t)((exponent + (1 << (exponent_bits - 1)) - 1) << mantissa_bits);
        bits |= (uint16_t)((value - 1) * (1 << mantissa_bits));
    }
    memcpy(at, &bits, size_of_type(type));
}

/* Reads a value that is normal and not negative, or 0. */
static inline double get(int type, const void *buffer, size_t index) {
    const char *at = (const char *)buffer + index * size_of_type(type);
    int exponent_bits, mantissa_bits;
    uint16_t bits = 0;
    switch (type) {
    case ncclInt8: return *(const int8_t *)at;
    case ncclUint8: return *(const uint8_t *)at;
    case ncclInt32: return *(const int32_t *)at;
    case ncclUint32: return *(const uint32_t *)at;
    case ncclInt64: return (double)*(const int64_t *)at;
    case ncclUint64: return (double)*(const uint64_t *)at;
    case ncclFloat32: return *(const float *)at;
    case ncclFloat64: return *(const double *)at;
    }
    memcpy(&bits, at, size_of_type(type));
    if (bits == 0) return 0;
    small_format(type, &exponent_bits, &mantissa_bits);
    double value = 1 + (bits & ((1 << mantissa_bits) - 1)) / (double)(1 << mantissa_bits);
    int exponent = (bits >> mantissa_bits) - ((1 << (exponent_bits - 1)) - 1);
    for (; exponent > 0; exponent--) value *= 2;
    for (; exponent < 0; exponent++) value /= 2;
    return value;
}

/* The same numbers on all ranks. */
static inline unsigned draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

/* memory.c: where buffers are, and the stream of this thread, NULL on the host. */
int on_gpus(void);
/* Uses the GPU of a rank in this thread, with a stream of its own. */
void use_gpu_of(int rank);
/* Its number, -1 on the host. */
int gpu_of(int rank);
void *new_stream(void);
/* Uses a stream in this thread; returns the one before. */
void *use_stream(void *stream);
void *stream(void);
void synchronize(void);
/* Begins to make a graph of the stream, or ends that. */
void capture(int begins);
void *new_memory(size_t bytes);
void free_memory(void *memory);
/* On the stream; what is written is read at once. */
void write_memory(void *to, const void *from, size_t bytes);
/* On the stream, and waits for it. */
void read_memory(void *to, const void *from, size_t bytes);
/* The same, given to the stream while that may still wait for a call. */
void read_waiting(void *to, const void *from, size_t bytes);
/* collectives.c */
void check_all(ncclComm_t comm, int rank, int ranks, uint64_t seed, int rounds);
void check_plain(ncclComm_t comm, int rank, int ranks, size_t count, int round);
void check_sum(ncclComm_t comm, int rank, int ranks, size_t count);
void check_exchange(ncclComm_t comm, int rank, int ranks, size_t count);
/* lifecycle.c, failures.c and bits.c; each returns 0 if it does not know the scenario */
int lifecycle(const char *scenario, struct seat seat);
int failures(const char *scenario, struct seat seat);
/* bits.c: the same on GPUs as on the host */
int bits(const char *scenario, struct seat seat);

#endif
