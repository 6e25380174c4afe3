#!/usr/bin/env python3
"""A worker from docs/worker.md alone, in the standard library: `fake.py MODE` misbehaves in one way.

As a program without an argument it behaves: out is filled with 1.5.
"""
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import time

mode = sys.argv[1] if len(sys.argv) > 1 else "behaves"
calls_seen = 0
TIMES = {"warms-up": {"warm_up_ms": 1000}, "warms-up-unsaid": {}, "warms-up-once-more": {"warm_up_ms": 1000},
         "warms-up-said-not-to": {"warm_up_ms": 0}, "is-forgotten-and-hangs": {"warm_up_ms": 0},
         "plans": {"plan_ms": 1000}}
DEEP = "[" * 1000000 + "]" * 1000000


def say(message):
    sys.stdout.write(message if isinstance(message, str) else json.dumps(message) + "\n")
    sys.stdout.flush()


def describe(request):
    if mode == "dies-at-start":
        sys.exit("no reason")
    if mode == "silent":
        time.sleep(3600)
    if mode == "nonsense-at-start":
        return say("Welcome to my kernel 1.0!\n")
    if mode == "other-protocol":
        return say({"protocol": 2, "message": "describe", "subjects": []})
    if mode == "no-subjects":
        return say({"protocol": 1, "message": "describe", "subjects": []})
    if mode == "array-at-start":
        return say("[1,2]\n")
    if mode == "subject-is-number":
        return say({"protocol": 1, "message": "describe", "subjects": [3]})
    if mode == "no-name":
        return say({"protocol": 1, "message": "describe", "subjects": [{"version": "1"}]})
    if mode == "endless-line-at-start":
        while True:
            say("x" * 65536)
    if mode == "deep-at-start":
        return say('{"protocol":' + DEEP + "}\n")
    offer = {"ops": ["attention"], "dtypes": ["f32"]} | TIMES.get(mode, {})
    answer = {"protocol": 1, "message": "describe", "subjects": [{"name": "fake", "version": "7", "describe": offer}]}
    if mode.startswith("mailbox"):
        global box
        with open(request["mailbox"]["path"], "r+b") as file:
            box = mmap.mmap(file.fileno(), request["mailbox"]["bytes"])
        answer["mailbox"] = 2 if mode == "mailbox-of-tomorrow" else request["mailbox"]["version"]
    say(answer)


def run(request, memory):
    global calls_seen
    for index, call in enumerate(request["calls"]):
        calls_seen += 1
        answer = {"protocol": 1, "message": "run", "id": request["id"], "call": index, "status": "ok", "ns": 5}
        if mode == "dies-now-and-then" and calls_seen == 50:
            os.kill(os.getpid(), 11)
        if mode == "dies-leaving-a-child":  # the child keeps our stdout open
            subprocess.Popen(["sleep", "60"])
            os.kill(os.getpid(), 9)
        if mode == "ends-behind-an-error" and calls_seen == 2:
            say(answer | {"status": "error", "text": "the device is lost", "ends": True})
            os._exit(1)
        if mode == "plans" or mode == "warms-up-once-more" or mode.startswith("warms-up") and calls_seen == 1:
            time.sleep(0.8)
        if mode == "hangs":
            time.sleep(3600)
        if mode == "was-forgotten" and calls_seen == 1 and not os.path.exists(sys.argv[2]):
            open(sys.argv[2], "w").close()
            os.kill(os.getpid(), signal.SIGALRM)
        if mode == "alarms":
            os.kill(os.getpid(), signal.SIGALRM)
        if mode == "is-forgotten-and-hangs":
            signal.setitimer(signal.ITIMER_REAL, 1)
            time.sleep(3600)
        if mode == "stops-reading":
            time.sleep(3600)
        if mode == "closes-stdout":
            os.close(1)
            os.close(0)
            time.sleep(3600)
        if mode == "prints":
            say("debug: entering kernel\n")
        if mode == "endless-line":
            while True:
                say("x" * 65536)
        if mode == "half-a-line":
            say('{"protocol":1,"mess')
            sys.exit(3)
        if mode == "deep":
            say('{"protocol":1,"message":"run","call":0,"id":' + DEEP + "}\n")
            continue
        if mode == "wrong-id":
            answer["id"] -= 1
        if mode == "wrong-call":
            answer["call"] += 1
        if mode == "wrong-status":
            answer["status"] = "fine"
        if mode == "wrong-protocol":
            answer["protocol"] = "1"
        if mode == "wrong-types":
            answer.update(status="error", text={"a": 1}, ns="soon")
        if mode == "no-json":
            say("ok\n")
            continue
        if mode == "binary":
            os.write(1, b"\xff\xfe\x00\x01\n")
            continue
        if mode == "error-message":
            answer = {"protocol": 1, "message": "error", "error": "lost the device"}
        if mode == "writes-q-and-k-once" and calls_seen == 1:
            for name in ("q", "k"):
                memory[call[name]["offset"]:call[name]["offset"] + 4] = struct.pack("<f", 1.5)
        out = call["out"]
        count = 1
        for extent in out["shape"]:
            count *= extent
        memory[out["offset"]:out["offset"] + 4 * count] = struct.pack("<f", 1.5) * count
        say(answer)
        if mode == "answers-twice":
            say(answer)


def word(place, value=None):
    if value is not None:
        struct.pack_into("=Q", box, place, value)
    return struct.unpack_from("=Q", box, place)[0]


def trip_in_mailbox(memory):
    """Reads every number of the trip as docs/worker.md has them, and answers."""
    global calls_seen
    trip = word(64)
    calls, subject, timeout_ms, arena_bytes, _ = struct.unpack_from("=IIQQQ", box, 4096)
    limit = 400 if "hangs" in mode else 10000
    assert subject == 0 and (timeout_ms == limit if trip > 1 else timeout_ms > limit)  # the first call warms up
    at = 4096 + 32
    for index in range(calls):
        calls_seen += 1
        size, op, flags, present, align, threads, form, _, scale, softcap, left, right = struct.unpack_from("=6I2I2d2q", box, at)
        assert (op, flags, align, scale, softcap, left, right) == (0, 0, 0, 0.5, 0, -1, -1)
        tensor = at + 64
        for place in range(10):
            if present >> place & 1:
                offset, dtype, ndim, *extents = struct.unpack_from("=QII8q", box, tensor)
                tensor += 80
                if place == 6:  # out
                    assert dtype == 2 and ndim == 4
                    count = extents[0] * extents[1] * extents[2] * extents[3]
                    memory[offset:offset + 4 * count] = struct.pack("<f", 1.5) * count
        assert tensor + form == at + size
        at += size
        if mode == "mailbox-hangs":
            time.sleep(3600)
        if mode == "mailbox-knocks-for-ever-and-hangs":
            while True:
                say("\n")
        if mode == "mailbox-dies":
            os.kill(os.getpid(), 11)
        if mode == "mailbox-dies-late" and calls_seen == 3:
            time.sleep(0.1)
            os.kill(os.getpid(), 11)
        line = {"protocol": 1, "message": "run", "id": trip, "call": index, "status": "unsupported", "text": "too small", "ns": 0}
        if mode == "mailbox-line":
            struct.pack_into("=IIQ", box, 65536 + 16 * index, 2, 0, 0)
        else:
            struct.pack_into("=IIQ", box, 65536 + 16 * index, 7 if mode == "mailbox-status" else 1, 0, 5)
        if mode == "mailbox-trip":
            word(128, (trip + 3) * 65536 + index + 1)
        elif mode == "mailbox-count":
            word(128, trip * 65536 + calls + 1)
        elif mode != "mailbox-line-alone":
            word(128, trip * 65536 + index + 1)
        if mode in ("mailbox-line", "mailbox-line-alone"):
            say(line)
        elif mode == "mailbox-knocks":
            say("\n\n\n")
        else:
            say("\n")  # whether or not attest sleeps


def main_by_mailbox():
    """Always asleep: says so, and looks again before it blocks."""
    global memory
    done = 0
    while True:
        word(256, 1)
        time.sleep(0)  # a system call
        if word(64) == done and not sys.stdin.readline():
            return
        word(256, 0)
        if word(64) != done:
            done = word(64)
            with open(arena, "r+b") as file:
                memory = mmap.mmap(file.fileno(), struct.unpack_from("=Q", box, 4096 + 16)[0])
            trip_in_mailbox(memory)


memory = box = None
for line in sys.stdin:
    request = json.loads(line)
    if request["message"] == "describe":
        arena = request["arena"]
        describe(request)
        if box:
            main_by_mailbox()
            break
    else:
        with open(arena, "r+b") as file:
            memory = mmap.mmap(file.fileno(), request["arena_bytes"])
        run(request, memory)
