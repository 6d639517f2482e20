#!/bin/sh
# Runs the library on one GPU, and prints a short log: `sh run.sh LIBRARY [PLANS]`, with the path of libsyncline_nccl.so and, if wanted, a
# folder with plans. See README.md.
here=$(cd "$(dirname "$0")" && pwd)
library=$(cd "$(dirname "$1")" && pwd)
plans=${2:-$here/../../../runtime/tests/plans}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SYNCLINE_ADDRESS=127.0.0.1 SYNCLINE_TIMEOUT=20 SYNCLINE_JOIN_TIMEOUT=60 CLIENT_PLANS="$plans"
export CLIENT_GPUS="${CLIENT_GPUS:-1}" LD_LIBRARY_PATH="$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
unset SYNCLINE_DEVICE

cd "$here/../c" || exit 2
cc -std=gnu11 -D_GNU_SOURCE -O1 -pthread -I../../include -o "$work/client" \
    main.c memory.c collectives.c lifecycle.c failures.c bits.c -L"$library" -lsyncline_nccl -ldl || exit 2
cd "$work" || exit 2

passed=0
failed=0

# run NAME RANKS SCENARIO [VARIABLE=VALUE ...]: the ranks are processes. The last one may be killed if the scenario says so.
run() {
    name=$1 ranks=$2 scenario=$3
    shift 3
    rm -f id id.new rank.* code.*
    begun=$(date +%s%N)
    rank=0
    while [ $rank -lt "$ranks" ]; do
        (
            env "$@" timeout 40 ./client processes "$scenario" $rank "$ranks" id >rank.$rank 2>&1
            echo $? >code.$rank
        ) &
        rank=$((rank + 1))
    done
    wait
    taken=$((($(date +%s%N) - begun) / 1000000))
    bad=$(cat code.* | grep -cv '^0$')
    # Of those whose last rank is killed, the others have to end well.
    case $scenario in killed*) bad=$(cat code.* | sed '$d' | grep -cv '^0$') ;; esac
    if [ "$bad" = 0 ]; then
        passed=$((passed + 1))
        echo "ok      $name ($taken ms)"
    else
        failed=$((failed + 1))
        echo "FAILED  $name ($taken ms): $(cat code.* | tr '\n' ' ')"
        cat rank.* | head -c 600
    fi
}

nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null
run "communicators are made" 2 captured SYNCLINE_DEBUG=info
grep -h "is served on" rank.0
run "bits of all types and reductions are those of the CPU" 2 bits
run "the same through memory of the host" 2 bits SYNCLINE_P2P=0
run "the same over TCP" 2 bits SYNCLINE_TRANSPORT=tcp
run "all collectives, one rank" 1 all
run "all collectives, two ranks" 2 all
run "all collectives, two ranks, through memory of the host" 2 all SYNCLINE_P2P=0
run "all collectives, four ranks" 4 all
run "several communicators and groups" 2 several
run "the same on the legacy stream" 2 several CLIENT_STREAM=0
run "the same on the stream of each thread" 2 several CLIENT_STREAM=2
run "calls on several streams ahead of the GPU" 2 ahead
run "the same on 64 streams at once" 2 ahead CLIENT_STREAMS=64
run "plans of files, four ranks" 4 plans
run "plans of files, six ranks" 6 plans
run "different calls fail on all ranks" 2 different SYNCLINE_TIMEOUT=3
run "the death of a rank releases streams" 3 killed SYNCLINE_TIMEOUT=3
run "an abort releases streams" 2 aborted SYNCLINE_TIMEOUT=3
run "a copy that waits for a call leaves it the driver" 2 waiting
for bytes in 1048576 16777216 268435456; do
    run "all-reduce of $bytes bytes" 2 timed CLIENT_BYTES=$bytes
    cat rank.0
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
