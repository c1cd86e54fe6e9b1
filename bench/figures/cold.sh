#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The figures of the cold path for docs/BENCHMARKS.md: replays of a topic that
# is in an S3 server (versitygw) alone, in turn with bare GETs of its objects.
# usage: bench/figures/cold.sh [FIRN [VERSITYGW]]     raw reports go to $OUT
set -euo pipefail
firn=${1:-./firn}
gateway=${2:-.cache/bin/versitygw}
rounds=${ROUNDS:-5}
out=${OUT:-figures-cold.jsonl}
data=$(mktemp -d)
port=${PORT:-19092}
: >"$out"
export AWS_ACCESS_KEY_ID=figures AWS_SECRET_ACCESS_KEY=figuresfigures
export ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY
settings=(--set tier.store=s3 --set tier.s3.endpoint=http://127.0.0.1:$((port + 1)) --set tier.s3.bucket=figures --set tier.s3.path.style=true
	--set admin.listeners=http://127.0.0.1:$((port + 98)))

mkdir "$data/bucket"
chrt -i 0 "$gateway" --port 127.0.0.1:$((port + 1)) posix "$data/bucket" >"$data/gateway.log" 2>&1 &
gateway_pid=$!
trap 'kill $pid $gateway_pid 2>/dev/null; wait; rm -rf "$data"' EXIT
until "$firn" tier init --create-bucket "${settings[@]}" >/dev/null 2>&1; do sleep 0.1; done
"$firn" serve --set log.dirs="$data/log" --set listeners=PLAINTEXT://127.0.0.1:"$port" --set log.segment.delete.delay.ms=0 \
	--set log.retention.check.interval.ms=1000 --set fetch.bulk.max.bytes.per.second=-1 "${settings[@]}" >"$data/firn.log" 2>&1 &
pid=$!
until "$firn" health "${settings[@]}" >/dev/null 2>&1; do sleep 0.1; done

report() { # name, then a command that prints a report
	local name=$1
	shift
	"$@" -o json | python3 -c '
import json, sys
print(json.dumps({"figure": sys.argv[1]} | json.load(sys.stdin)))' "$name" >>"$out"
}

at=(-b "127.0.0.1:$port")
"$firn" topic create cold "${at[@]}" --config segment.bytes=67108864 --config local.retention.ms=1 --config segment.ms=2000 >/dev/null
report fill "$firn" bench produce --topic cold --raw --acks 1 --batch 64KiB --rate 300000 --duration 7s "${at[@]}" --pid $pid
until [ "$(find "$data/log/cold-0" -name '*.log' -size +0 | wc -l)" -le 1 ]; do
	sleep 1
	echo tick | "$firn" topic produce cold "${at[@]}" >/dev/null # rolls the last segment
done
for _ in $(seq "$rounds"); do
	report "bare GETs" "$firn" bench get --topic cold "${settings[@]}"
	report "cold replay 1" "$firn" bench replay --topic cold --raw "${at[@]}" --pid $pid
	report "bare GETs" "$firn" bench get --topic cold "${settings[@]}"
	report "cold replay 4" "$firn" bench replay --topic cold --raw --clients 4 "${at[@]}" --pid $pid
done
python3 "$(dirname "$0")/medians.py" "$out"
