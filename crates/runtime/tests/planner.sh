#!/bin/sh
# A planner that notes how it is called and what it reads, in the folder of the link by which it is called.
cd "$(dirname "$0")" || exit 1
read=$(cat)
echo "$*: $read" >> notes
if [ "$1" = trees ]; then echo plan; else cat detected; fi
test -s detected
