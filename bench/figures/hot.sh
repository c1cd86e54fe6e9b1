#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The figures of the hot path for docs/BENCHMARKS.md: every measurement in
# turn, ROUNDS times over, against one broker that this starts and stops.
# usage: bench/figures/hot.sh [FIRN]     raw reports go to $OUT, one JSON a line
set -euo pipefail # bulk answers are not capped: what is measured is the path
firn=${1:-./firn}
rounds=${ROUNDS:-5}
out=${OUT:-figures-hot.jsonl}
data=$(mktemp -d)
port=${PORT:-19092}
: >"$out"

"$firn" serve --set log.dirs="$data" --set log.segment.delete.delay.ms=0 --set fetch.bulk.max.bytes.per.second=-1 --set listeners=PLAINTEXT://127.0.0.1:"$port" \
	--set admin.listeners=http://127.0.0.1:$((port + 98)) >"$data.log" 2>&1 &
pid=$!
trap 'kill $pid; wait $pid || true; rm -rf "$data" "$data.log" "$data.touched"' EXIT
until "$firn" health --set admin.listeners=http://127.0.0.1:$((port + 98)) >/dev/null 2>&1; do sleep 0.1; done

bench() { # name, then the arguments of firn bench
	local name=$1
	shift
	"$firn" bench "$@" --raw -b 127.0.0.1:"$port" --pid "$pid" -o json | python3 -c '
import json, sys
print(json.dumps({"figure": sys.argv[1]} | json.load(sys.stdin)))' "$name" >>"$out"
}

# A virtual machine may give pages that it frees back to its host within
# seconds, and pays for each again when it is next touched: more than a broker
# costs. So every producer starts with an empty topic and pages that have just
# been in use.
ready() {
	"$firn" topic delete "$1" --yes -b 127.0.0.1:"$port" >/dev/null 2>&1 || true
	dd if=/dev/zero of="$data.touched" bs=1M count=5000 status=none
	rm "$data.touched"
}

grep -E 'RssAnon|Threads' /proc/$pid/status >&2
bench fill produce --topic hot --acks 1 --batch 64KiB --duration 3s
for _ in $(seq "$rounds"); do
	for acks in 1 all; do
		for batch in 64KiB 1MiB; do
			ready w
			bench "produce acks=$acks $batch" produce --topic w --acks "$acks" --batch "$batch" --duration 3s
		done
	done
	for clients in 1 4; do
		bench "consume $clients" consume --topic hot --clients "$clients" --duration 3s
	done
	for acks in 1 all; do
		bench "e2e acks=$acks" e2e --topic "tail-$acks" --acks "$acks" --rate 5000 --duration 5s
	done
done
python3 "$(dirname "$0")/medians.py" "$out"
