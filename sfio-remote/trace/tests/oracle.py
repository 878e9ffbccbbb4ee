"""What Darshan's own reader says of the logs that its package for Python brings, and of those in the
folders that are named, as JSON: an oracle for tests/darshan.rs.

For each log and each DXT module: all segments, and what a plain count makes of them.
"""
import glob
import json
import os
import struct
import sys

import darshan


def pairs(segments, start_s):
    """Requests that follow one of the same rank and file, and the sequential and consecutive ones of them."""
    streams = {}
    for kind, rank, record, offset, length, start, end in segments:
        us = [start_s * 1_000_000 + int(max(0.0, t) * 1e6 + 0.5) for t in (start, end)]
        if offset >= 0:
            streams.setdefault((record, rank), []).append((us[0], max(us), kind != "write", offset, length))
    counts = [0, 0, 0]
    for requests in streams.values():
        requests.sort(key=lambda request: request[:2])
        for before, request in zip(requests, requests[1:]):
            counts[0] += 1
            counts[1] += request[3] > before[3]
            counts[2] += request[3] == before[3] + before[4]
    return counts


def bits(number):
    """A number of 64 bits as the integer with the same bits: readers of JSON round."""
    return struct.unpack("<Q", struct.pack("<d", number))[0]


def main():
    logs = []
    top = os.path.dirname(darshan.__file__)
    for path in sorted(path for folder in [top] + sys.argv[1:]
                       for path in glob.glob(os.path.join(folder, "**", "*.darshan"), recursive=True)):
        report = darshan.DarshanReport(path, read_all=False)
        job = report.metadata["job"]
        modules = {}
        for module in ("DXT_POSIX", "DXT_MPIIO"):
            segments = []
            if module in report.modules:
                report.mod_read_all_dxt_records(module, dtype="dict")
                for record in report.records[module]:
                    for kind in ("write", "read"):
                        for segment in record[f"{kind}_segments"]:
                            values = [segment[key] for key in ("offset", "length", "start_time", "end_time")]
                            segments.append([kind, record["rank"], record["id"]] + values)
            exact = [segment[:5] + [bits(time) for time in segment[5:]] for segment in segments]
            modules[module] = {"segments": exact, "pairs": pairs(segments, job["start_time_sec"])}
        logs.append({"path": path, "processes": job["nprocs"], "user": job["uid"], "job": job["jobid"],
                     "start_s": job["start_time_sec"], "modules": modules})
    json.dump(logs, sys.stdout)


main()
