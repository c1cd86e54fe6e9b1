#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the medians, least and most of the figures in files of JSON lines."""
import json
import statistics
import sys

FIELDS = [  # heading, where it is in a report
    ("MiB/s", ("mib_per_second",)),
    ("CPU s/GiB", ("broker", "cpu_seconds_per_gib")),
    ("p50 ms", ("latency", "p50_ms")),
    ("p99 ms", ("latency", "p99_ms")),
    ("anon MiB", ("broker", "anonymous_bytes")),
]


def dig(report, path):
    for key in path:
        report = report.get(key) if isinstance(report, dict) else None
    return report


def main():
    figures = {}
    for name in sys.argv[1:]:
        with open(name) as lines:
            for line in lines:
                report = json.loads(line)
                figures.setdefault(report["figure"], []).append(report)
    print("| figure | runs | " + " | ".join(h for h, _ in FIELDS) + " |")
    print("|---" * (len(FIELDS) + 2) + "|")
    for name, reports in figures.items():
        row = [name, str(len(reports))]
        for heading, path in FIELDS:
            values = [v for v in (dig(r, path) for r in reports) if v]
            if heading == "anon MiB":
                values = [v / 2**20 for v in values]
            if not values:
                row.append("")
                continue
            digits = 2 if max(values) < 100 else 0
            row.append(f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})")
        print("| " + " | ".join(row) + " |")


main()
