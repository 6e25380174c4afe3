#!/usr/bin/env python3
"""A worker from docs/worker.md alone, in the standard library: `fake.py MODE` misbehaves in one way.

As a program without an argument it behaves: out is filled with 1.5.
"""
import json
import mmap
import os
import struct
import subprocess
import sys
import time

mode = sys.argv[1] if len(sys.argv) > 1 else "behaves"
calls_seen = 0
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
    offer = {"ops": ["attention"], "dtypes": ["f32"]}
    say({"protocol": 1, "message": "describe", "subjects": [{"name": "fake", "version": "7", "describe": offer}]})


def run(request, memory):
    global calls_seen
    for index, call in enumerate(request["calls"]):
        calls_seen += 1
        answer = {"protocol": 1, "message": "run", "id": request["id"], "call": index, "status": "ok", "ns": 5}
        if mode == "dies-now-and-then" and calls_seen == 50:
            os.kill(os.getpid(), 11)
        if mode == "dies-leaving-a-child":  # which keeps our stdout open
            subprocess.Popen(["sleep", "60"])
            os.kill(os.getpid(), 9)
        if mode == "hangs":
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


memory = None
for line in sys.stdin:
    request = json.loads(line)
    if request["message"] == "describe":
        arena = request["arena"]
        describe(request)
    else:
        with open(arena, "r+b") as file:
            memory = mmap.mmap(file.fileno(), request["arena_bytes"])
        run(request, memory)
