"""Fuzz the package: ``make fuzz SECONDS=600 SEED=1``, or ``PYTHONPATH=tests python -m fuzz --help``.

Cases run in processes of their own, which are watched: one that dies or does not end is a finding, too.
Every finding has a name by which ``--replay NAME`` runs it again. Exits 1 if there is any.
"""

import argparse
import collections
import faulthandler
import json
import os
import queue
import resource
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from fuzz import SCHEDULE, SHARES, run_case

PATIENCE = 300  # seconds until a case counts as a hang; the first ones compile kernels
ADDRESS_SPACE = 16  # GiB; no input needs more than a few MB, but a GPU maps much more


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=None, help="how long (default: until --cases)")
    parser.add_argument("--cases", type=int, default=None, help="how many cases (default: until --seconds)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", nargs="+", choices=SHARES, help="targets (default: all)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--memory", type=int, default=ADDRESS_SPACE, metavar="GIB", help="limit; 0 is none")
    parser.add_argument("--report", type=Path, help="write all findings as JSON")
    parser.add_argument("--replay", metavar="TARGET:SEED:NUMBER", help="run one case in this process")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay is not None:
        name, seed, number = given.replay.split(":")
        run_case(name, int(seed), int(number))
        print("as it should be")
    elif given.worker is not None:
        work(**json.loads(given.worker))
    else:
        if given.seconds is None and given.cases is None:
            parser.error("say how long: --seconds or --cases")
        sys.exit(fuzz(given))


def work(targets, seed, first, step, last, memory):
    """Run every step-th case, and print its name before and its outcome after it."""
    faulthandler.enable()
    limit = memory << 30 if memory else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the package prints is not for the driver
    number = first
    while last is None or number < last:
        name = targets[number % len(targets)]
        out.write(f"start {number}\n")
        try:
            run_case(name, seed, number)
            found = None
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-2:]]
            found = {"kind": type(error).__name__, "message": str(error)[:500], "where": where}
        out.write(f"end {json.dumps(found)}\n")
        number += step


def fuzz(given):
    """Run workers until the time or the cases are used up; print a summary."""
    targets = given.only or SCHEDULE
    deadline = None if given.seconds is None else time.monotonic() + given.seconds
    last = None if given.cases is None else given.first + given.cases
    counts, findings = collections.Counter(), []
    lock = threading.Lock()

    def record(number, found):
        name = targets[number % len(targets)]
        with lock:
            counts[name] += 1
            if found is not None:
                found["case"] = f"{name}:{given.seed}:{number}"
                findings.append(found)
                message = " ".join(found["message"].split())
                print(f"{found['case']}  {found['kind']}: {message[:200]}", flush=True)

    def run(first):
        while first is not None:
            settings = {"targets": targets, "seed": given.seed, "first": first, "step": given.jobs}
            first = watch(settings | {"last": last, "memory": given.memory}, deadline, record)

    threads = [threading.Thread(target=run, args=(given.first + job,)) for job in range(given.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if given.report is not None:
        given.report.write_text(json.dumps({"counts": counts, "findings": findings}, indent=1))
    for name in sorted(counts):
        print(f"{name:22} {counts[name]:>8,}")
    print(f"{'all':22} {sum(counts.values()):>8,} cases, {len(findings)} findings")
    return 1 if findings else 0


def watch(settings, deadline, record):
    """Run one worker; return the case after the one that ended it, or None at the end."""
    step = settings["step"]
    command = [sys.executable, "-m", "fuzz", "--worker", json.dumps(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines, errors = queue.Queue(), collections.deque(maxlen=40)
    noise = threading.Thread(target=errors.extend, args=(process.stderr,), daemon=True)
    noise.start()
    threading.Thread(target=_forward, args=(process.stdout, lines), daemon=True).start()
    number = None
    try:
        while True:
            try:
                line = lines.get(timeout=PATIENCE)
            except queue.Empty:
                record(number, {"kind": "hang", "message": f"no end after {PATIENCE} s", "where": []})
                return number + step
            if line is None:  # the process has ended
                process.wait()
                noise.join()
                if number is None and process.returncode == 0:
                    return None
                if number is None:
                    raise SystemExit(f"the worker does not start:\n{''.join(errors)}")
                message = f"exit {process.returncode}: {''.join(errors)[-1500:]}"
                record(number, {"kind": "crash", "message": message, "where": []})
                return number + step
            word, _, rest = line.partition(" ")
            if word == "start":
                number = int(rest)
                if deadline is not None and time.monotonic() > deadline:
                    return None
            else:
                record(number, json.loads(rest))
                number = None
    finally:
        process.kill()
        process.wait()


def _forward(stream, lines):
    """Put the lines of a stream, and None at its end."""
    for line in stream:
        lines.put(line)
    lines.put(None)


if __name__ == "__main__":
    main()
