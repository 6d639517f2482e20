/* All collectives, on values that every data type has exactly: each rank has ones and twos. */
#include "common.h"

#define GUARD 16

static int input(int rank, size_t index) { return 1 + (int)((rank * 7 + index * 3 + index / 5) & 1); }

struct buffer {
    int type;
    size_t count;
    void *data;
};

/* A buffer of zeros with known bytes behind it. */
static struct buffer new_buffer(int type, size_t count) {
    size_t bytes = count * size_of_type(type);
    struct buffer buffer = {type, count, new_memory(bytes + GUARD)};
    char *content = calloc(1, bytes + GUARD);
    memset(content + bytes, 0x5a, GUARD);
    write_memory(buffer.data, content, bytes + GUARD);
    free(content);
    return buffer;
}

static void free_buffer(struct buffer buffer) {
    char end[GUARD];
    read_memory(end, (const char *)buffer.data + buffer.count * size_of_type(buffer.type), GUARD);
    for (int i = 0; i < GUARD; i++) CHECK(end[i] == 0x5a, "written behind a buffer of type %d", buffer.type);
    free_memory(buffer.data);
}

static void *at(struct buffer buffer, size_t index) {
    return (char *)buffer.data + index * size_of_type(buffer.type);
}

/* Writes the input of a rank. Elements are those of a vector, from `first`. */
static void fill(struct buffer buffer, size_t to, int rank, size_t first, size_t count) {
    size_t bytes = count * size_of_type(buffer.type);
    char *content = malloc(bytes + 1);
    for (size_t i = 0; i < count; i++) put(buffer.type, content, i, input(rank, first + i));
    write_memory(at(buffer, to), content, bytes);
    free(content);
}

/* A copy of elements on the host. */
static void *content_of(struct buffer buffer, size_t from, size_t count) {
    size_t bytes = count * size_of_type(buffer.type);
    void *content = malloc(bytes + 1);
    read_memory(content, at(buffer, from), bytes);
    return content;
}

static void expect_input(const char *what, struct buffer buffer, size_t from, int rank, size_t first, size_t count) {
    void *content = content_of(buffer, from, count);
    for (size_t i = 0; i < count; i++) {
        double got = get(buffer.type, content, i);
        CHECK(got == input(rank, first + i), "%s, type %d, element %zu of %zu: %g", what, buffer.type, i, count, got);
    }
    free(content);
}

/* What a reduction gives; op 5 stands for a sum of inputs times 2. */
static double reduced(int type, int op, int ranks, size_t index) {
    double result = op == ncclProd ? 1 : op == ncclMin ? 9 : 0;
    for (int rank = 0; rank < ranks; rank++) {
        double value = input(rank, index);
        if (op == ncclSum || op == ncclAvg) result += value;
        if (op == ncclProd) result *= value;
        if (op == ncclMax && value > result) result = value;
        if (op == ncclMin && value < result) result = value;
        if (op == 5) result += 2 * value;
    }
    if (op != ncclAvg) return result;
    return type <= ncclUint64 ? (double)((int)result / ranks) : result / ranks;
}

static void expect_reduced(const char *what, struct buffer buffer, size_t from, int op, int ranks, size_t first,
                           size_t count) {
    int is_exact = op != ncclAvg || buffer.type <= ncclUint64 || (ranks & (ranks - 1)) == 0;
    void *content = content_of(buffer, from, count);
    for (size_t i = 0; i < count; i++) {
        double got = get(buffer.type, content, i), right = reduced(buffer.type, op, ranks, first + i);
        double error = got > right ? got - right : right - got;
        /* A third is not exact: two bits of mantissa may be all there is. */
        CHECK(error <= (is_exact ? 0 : 0.3 * right), "%s, type %d, op %d, element %zu of %zu: %g, not %g", what,
              buffer.type, op, i, count, got, right);
    }
    free(content);
}

static void check_reductions(ncclComm_t comm, int rank, int ranks, int type, int op, int code, size_t count, int root) {
    size_t all = count * (size_t)ranks;
    for (int in_place = 0; in_place < 2; in_place++) {
        struct buffer send = new_buffer(type, count), recv = new_buffer(type, count);
        struct buffer *to = in_place ? &send : &recv;
        fill(send, 0, rank, 0, count);
        OK(ncclAllReduce(send.data, to->data, count, type, code, comm, stream()));
        expect_reduced("ncclAllReduce", *to, 0, op, ranks, 0, count);

        fill(send, 0, rank, 0, count);
        void *result = rank == root ? to->data : in_place ? send.data : NULL;
        OK(ncclReduce(send.data, result, count, type, code, root, comm, stream()));
        if (rank == root) expect_reduced("ncclReduce", *to, 0, op, ranks, 0, count);
        if (rank != root) expect_input("ncclReduce, what is not the root's", send, 0, rank, 0, count);
        free_buffer(send);
        free_buffer(recv);

        struct buffer whole = new_buffer(type, all), share = new_buffer(type, count);
        size_t own = count * (size_t)rank;
        fill(whole, 0, rank, 0, all);
        OK(ncclReduceScatter(whole.data, in_place ? at(whole, own) : share.data, count, type, code, comm, stream()));
        expect_reduced("ncclReduceScatter", in_place ? whole : share, in_place ? own : 0, op, ranks, own, count);
        free_buffer(whole);
        free_buffer(share);
    }
}

static void check_moves(ncclComm_t comm, int rank, int ranks, int type, size_t count, int root) {
    size_t all = count * (size_t)ranks, own = count * (size_t)rank;
    for (int in_place = 0; in_place < 2; in_place++) {
        struct buffer share = new_buffer(type, count), whole = new_buffer(type, all), other = new_buffer(type, all);
        struct buffer part = new_buffer(type, count);
        if (rank == root) fill(share, 0, root, 0, count);
        struct buffer to = in_place && rank == root ? share : part;
        if (in_place && count % 2) {
            OK(ncclBcast(to.data, count, type, root, comm, stream()));
        } else {
            OK(ncclBroadcast(rank == root ? share.data : NULL, to.data, count, type, root, comm, stream()));
        }
        expect_input("ncclBroadcast", to, 0, root, 0, count);

        fill(in_place ? whole : share, in_place ? own : 0, rank, own, count);
        const void *send = in_place ? at(whole, own) : share.data;
        OK(ncclAllGather(send, whole.data, count, type, comm, stream()));
        for (int peer = 0; peer < ranks; peer++) {
            expect_input("ncclAllGather", whole, count * (size_t)peer, peer, count * (size_t)peer, count);
        }

        fill(in_place && rank == root ? other : share, in_place && rank == root ? own : 0, rank, own, count);
        send = in_place && rank == root ? at(other, own) : share.data;
        OK(ncclGather(send, rank == root ? other.data : NULL, count, type, root, comm, stream()));
        for (int peer = 0; peer < ranks && rank == root; peer++) {
            expect_input("ncclGather", other, count * (size_t)peer, peer, count * (size_t)peer, count);
        }

        if (rank == root) fill(whole, 0, root, 0, all);
        int within = in_place && rank == root;
        OK(ncclScatter(rank == root ? whole.data : NULL, within ? at(whole, own) : part.data, count, type, root, comm,
                       stream()));
        expect_input("ncclScatter", within ? whole : part, within ? own : 0, root, own, count);

        fill(whole, 0, rank, 0, all);
        OK(ncclAlltoAll(whole.data, other.data, count, type, comm, stream()));
        for (int peer = 0; peer < ranks; peer++) {
            expect_input("ncclAlltoAll", other, count * (size_t)peer, peer, own, count);
        }
        free_buffer(share);
        free_buffer(whole);
        free_buffer(other);
        free_buffer(part);
    }
}

/* All collectives, for all types and reductions, with counts and roots drawn from a seed. */
void check_all(ncclComm_t comm, int rank, int ranks, uint64_t seed, int rounds) {
    for (int round = 0; round < rounds; round++) {
        for (int type = 0; type < 12; type++) {
            size_t count = draw(&seed) % 3 == 0 ? draw(&seed) % 9 : draw(&seed) % 5000;
            if (type == ncclFloat32 && round == 0) count = 300001;
            int root = (int)(draw(&seed) % (unsigned)ranks);
            check_moves(comm, rank, ranks, type, count, root);
            for (int op = 0; op < 6; op++) {
                ncclRedOp_t code = op;
                double factor[1];
                void *scalar = NULL;
                put(type, factor, 0, 2);
                if (op == 5 && count % 2) {
                    OK(ncclRedOpCreatePreMulSum(&code, factor, type, ncclScalarHostImmediate, comm));
                } else if (op == 5) {
                    /* On a GPU, what is written on the stream before a call is what the call reads. */
                    scalar = new_memory(8);
                    write_memory(scalar, factor, 8);
                    OK(ncclRedOpCreatePreMulSum(&code, scalar, type, ncclScalarDevice, comm));
                }
                check_reductions(comm, rank, ranks, type, op, code, count, root);
                if (op == 5) OK(ncclRedOpDestroy(code, comm));
                if (scalar) free_memory(scalar);
            }
        }
    }
}

/* Moves from and to the first rank, which plans of files have, and an average. */
void check_plain(ncclComm_t comm, int rank, int ranks, size_t count, int round) {
    int op = round % 2 ? ncclSum : ncclAvg;
    check_moves(comm, rank, ranks, ncclInt32, count, 0);
    check_reductions(comm, rank, ranks, round % 2 ? ncclFloat32 : ncclInt32, op, op, count, 0);
    check_reductions(comm, rank, ranks, ncclFloat64, ncclAvg, ncclAvg, count, 0);
}

void check_sum(ncclComm_t comm, int rank, int ranks, size_t count) {
    check_reductions(comm, rank, ranks, ncclFloat32, ncclSum, ncclSum, count, (int)count % ranks);
}

/* Everyone sends to everyone, in a group in a group, messages of different lengths and of none. */
void check_exchange(ncclComm_t comm, int rank, int ranks, size_t count) {
    struct buffer send[64], recv[64];
    OK(ncclGroupStart());
    for (int peer = 0; peer < ranks; peer++) {
        size_t out = count * (size_t)((rank + 2 * peer) % 3), in = count * (size_t)((peer + 2 * rank) % 3);
        send[peer] = new_buffer(ncclFloat32, out);
        recv[peer] = new_buffer(ncclFloat32, in);
        fill(send[peer], 0, rank * 10 + peer, 0, out);
        OK(ncclGroupStart());
        OK(ncclRecv(in ? recv[peer].data : NULL, in, ncclFloat32, peer, comm, stream()));
        OK(ncclSend(out ? send[peer].data : NULL, out, ncclFloat32, peer, comm, stream()));
        OK(ncclGroupEnd());
    }
    OK(ncclGroupEnd());
    for (int peer = 0; peer < ranks; peer++) {
        expect_input("ncclRecv", recv[peer], 0, peer * 10 + rank, 0, recv[peer].count);
        free_buffer(send[peer]);
        free_buffer(recv[peer]);
    }
}
