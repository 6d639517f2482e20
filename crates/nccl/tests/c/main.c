/* client processes SCENARIO RANK RANKS FILE: one rank; ranks find the id in the file, which rank 0 writes.
   client threads SCENARIO RANKS: all ranks as threads of this process. */
#include "common.h"

#include <pthread.h>
#include <unistd.h>

static const char *scenario;

static void run(struct seat seat) {
    use_gpu_of(seat.rank);
    CHECK(lifecycle(scenario, seat) || failures(scenario, seat) || bits(scenario, seat), "no such scenario: %s", scenario);
}

static void *run_thread(void *seat) {
    run(*(struct seat *)seat);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc >= 4, "client processes SCENARIO RANK RANKS FILE | client threads SCENARIO RANKS");
    scenario = argv[2];
    if (!strcmp(argv[1], "threads")) {
        struct seat seats[64] = {0};
        pthread_t threads[64];
        int ranks = atoi(argv[3]);
        ncclUniqueId id;
        OK(ncclGetUniqueId(&id));
        for (int rank = 0; rank < ranks; rank++) {
            seats[rank] = (struct seat){rank, ranks, id};
            CHECK(!pthread_create(&threads[rank], NULL, run_thread, &seats[rank]), "no thread");
        }
        for (int rank = 0; rank < ranks; rank++) pthread_join(threads[rank], NULL);
        return 0;
    }
    CHECK(argc == 6, "client processes SCENARIO RANK RANKS FILE");
    struct seat seat = {atoi(argv[3]), atoi(argv[4]), {{0}}};
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.new", argv[5]);
    if (seat.rank == 0) {
        OK(ncclGetUniqueId(&seat.id));
        FILE *file = fopen(temporary, "wb");
        CHECK(file && fwrite(&seat.id, sizeof seat.id, 1, file) == 1 && !fclose(file), "%s", temporary);
        CHECK(!rename(temporary, argv[5]), "%s", argv[5]);
    } else {
        FILE *file = NULL;
        for (int tries = 0; !(file = fopen(argv[5], "rb")) && tries < 3000; tries++) usleep(10000);
        CHECK(file && fread(&seat.id, sizeof seat.id, 1, file) == 1, "%s", argv[5]);
        fclose(file);
    }
    run(seat);
    return 0;
}
