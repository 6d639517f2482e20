/* Prints sizes and offsets of the structures, as a C compiler has them. */
#include "syncline_nccl.h"

#include <stdio.h>

#define SIZE(type) printf(#type " %zu\n", sizeof(type))
#define OFFSET(type, member) printf(#type "." #member " %zu\n", offsetof(type, member))

int main(void) {
    SIZE(ncclUniqueId);
    SIZE(ncclConfig_t);
    OFFSET(ncclConfig_t, size);
    OFFSET(ncclConfig_t, magic);
    OFFSET(ncclConfig_t, version);
    OFFSET(ncclConfig_t, blocking);
    OFFSET(ncclConfig_t, cgaClusterSize);
    OFFSET(ncclConfig_t, minCTAs);
    OFFSET(ncclConfig_t, maxCTAs);
    OFFSET(ncclConfig_t, netName);
    OFFSET(ncclConfig_t, splitShare);
    SIZE(ncclSimInfo_t);
    OFFSET(ncclSimInfo_t, size);
    OFFSET(ncclSimInfo_t, magic);
    OFFSET(ncclSimInfo_t, version);
    OFFSET(ncclSimInfo_t, estimatedTime);
    return 0;
}
