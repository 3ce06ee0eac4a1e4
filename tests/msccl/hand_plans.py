"""MSCCL++ plans written by hand for tests, as the values of their JSON. Nothing of collc is used here."""

from __future__ import annotations

import json


def buff(kind, index, size=1):
    return {"type": kind, "index": index, "size": size}


def far(buffer, index, size=1):
    return {"buffer_id": buffer, "index": index, "size": size}


def gpu(rank, n, chunks, ops, remote, kind="memory"):
    """One threadblock per list of ops, all with channels to all others (in order of rank) and all remote buffers."""
    peers = [peer for peer in range(n) if peer != rank]
    count = len(remote) * len(peers)
    return {
        "id": rank,
        "input_chunks": chunks[0],
        "output_chunks": chunks[1],
        "scratch_chunks": chunks[2],
        "channels": [{"channel_type": kind, "connected_to": peers}],
        "remote_buffers": [{"rank": p, "type": b, "access_channel_types": [kind]} for b in remote for p in peers],
        "threadblocks": [
            {
                "id": number,
                "channels": [{"channel_type": kind, "channel_ids": list(range(len(peers)))}],
                "remote_buffer_refs": [{"access_channel_type": kind, "remote_buffer_ids": list(range(count))}],
                "ops": block,
            }
            for number, block in enumerate(ops)
        ],
    }


def plan(coll, gpus, inplace=False):
    return {"name": "by hand", "collective": coll, "protocol": "Simple", "inplace": inplace, "gpus": gpus}


def all_gather(n=3, kind="memory"):
    """Everybody waits for everybody to begin, puts its chunk into everybody's output, then signals and waits."""
    gpus = []
    for rank in range(n):
        channels = {"channel_type": kind, "channel_ids": list(range(n - 1))}
        put = [buff("i", 0)] * (n - 1), [far(k, rank) for k in range(n - 1)]
        ops = [
            {"name": "signal", **channels},
            {"name": "wait", **channels},
            {"name": "nop"},
            {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("o", rank)]},
            {"name": "put", "src_buff": put[0], "dst_buff": put[1], **channels},
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
        ]
        if kind == "port":  # the entries of dst_buff say how many channels
            ops.append({"name": "flush", "dst_buff": [{"index": 0, "size": 0}] * (n - 1), **channels})
        gpus.append(gpu(rank, n, (1, n, 0), [ops], ["o"], kind))
    return plan("allgather", gpus)


def put_and_signal(name, n=3):
    """The All-Gather over ports with one operation in place of put, nop, signal and flush."""
    found = all_gather(n, "port")
    for gpu in found["gpus"]:
        block = gpu["threadblocks"][0]
        begin, put, wait = block["ops"][:4], block["ops"][4], block["ops"][7]
        block["ops"] = [*begin, put | {"name": name}, wait]
    return found


def all_reduce(n=3):
    """In place: chunk r of everybody to the scratch of rank r, sum there, and back; credits if memory is reused."""
    gpus = []
    for rank in range(n):
        peers = [peer for peer in range(n) if peer != rank]
        channels = {"channel_type": "memory", "channel_ids": list(range(n - 1))}
        slot = [sum(q < rank for q in range(n) if q != peer) for peer in peers]
        put = {
            "src_buff": [buff("i", peer) for peer in peers],
            "dst_buff": [far(k, slot[k]) for k in range(n - 1)],
        }
        ops = [
            {"name": "put", **put, **channels},
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
            {"name": "nop"},
            {
                "name": "res",
                "src_buff": [buff("i", rank), *(buff("s", k) for k in range(n - 1))],
                "dst_buff": [buff("i", rank), *(far(n - 1 + k, rank) for k in range(n - 1))],
                **channels,
            },
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
        ]
        gpus.append(gpu(rank, n, (n, n, n - 1), [ops], ["s", "i"]))
    return plan("allreduce", gpus, inplace=True)


def read_reduce(n=2):
    """Reduce-Scatter out of place by reading the others' inputs; two threadblocks that meet at barriers."""
    gpus = []
    for rank in range(n):
        channels = {"channel_type": "memory", "channel_ids": list(range(n - 1))}

        def reduce(part, rank=rank):
            slot = rank * 2 + part
            return {
                "name": "rre",
                "src_buff": [buff("i", slot), *(far(k, slot) for k in range(n - 1))],
                "dst_buff": [buff("o", part)],
                "channel_type": "memory",
            }

        meet = [{"name": "barrier", "barrier_id": number, "num_threadblocks": 2} for number in (0, 1)]
        both = [{"name": "signal", **channels}, {"name": "wait", **channels}]
        first = [*both, meet[0], reduce(0), meet[1], *both]
        second = [dict(meet[0]), reduce(1), dict(meet[1])]
        gpus.append(gpu(rank, n, (2 * n, 2, 0), [first, second], ["i"]))
    return plan("reducescatter", gpus)


def by_semaphore():
    """One threadblock copies to scratch, another one from there, after a semaphore."""
    gpus = []
    for rank in range(2):
        channels = {"channel_type": "memory", "channel_ids": [0]}
        first = [
            {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("s", 0)]},
            {"name": "nop"},
            {"name": "sem_release", "semaphore_ids": [0]},
            {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("o", rank)]},
        ]
        second = [
            {"name": "signal", **channels},
            {"name": "wait", **channels},
            {"name": "nop"},
            {"name": "sem_acquire", "semaphore_ids": [0]},
            {"name": "nop"},
            {"name": "put", "src_buff": [buff("s", 0)], "dst_buff": [far(0, rank)], **channels},
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
        ]
        made = gpu(rank, 2, (1, 2, 1), [first, second], ["o"])
        made["semaphores"] = [{"init_value": 0}]
        gpus.append(made)
    return plan("allgather", gpus)


def by_port(n=3):
    found = all_gather(n, "port")
    for one in found["gpus"]:
        ops = one["threadblocks"][0]["ops"]
        ops[4]["name"] = "pws"
        del ops[6]
    return found


def multicast(n=3):
    """All-Gather over a switch: each GPU stores its chunk to all."""
    gpus = []
    for rank in range(n):
        channels = {"channel_type": "memory", "channel_ids": list(range(n - 1))}
        meet = [{"name": "signal", **channels}, {"name": "wait", **channels}]
        store = {
            "name": "gstore",
            "src_buff": [buff("i", 0)],
            "dst_buff": [{"switch_channel_id": 0, "index": rank, "size": 1}],
            "channel_type": "switch",
        }
        one = gpu(rank, n, (1, n, 0), [[*meet, {"name": "nop"}, store, {"name": "nop"}, *meet]], [])
        group = {"size": n, "ranks": list(range(n))}
        one["channels"].append({"channel_type": "switch", "buffer_type": "o", "rank_groups": [group]})
        one["threadblocks"][0]["channels"].append({"channel_type": "switch", "channel_ids": [0]})
        gpus.append(one)
    return plan("allgather", gpus)


def puts_of_a_scatter(root):
    """Two gpus in place; the root puts the chunk of the other one into its output."""
    channels = {"channel_type": "memory", "channel_ids": [0]}
    meet = [{"name": "signal", **channels}, {"name": "wait", **channels}, {"name": "nop"}]
    put = {"name": "put", "src_buff": [buff("i", 1 - root)], "dst_buff": [far(0, 0)], **channels}
    ops_of = [[*meet, put, {"name": "nop"}, *meet] if rank == root else meet * 2 for rank in range(2)]
    return plan("scatter", [gpu(rank, 2, (2, 1, 0), [ops_of[rank]], ["o"]) for rank in range(2)], inplace=True)


def puts_to_inputs():
    """An All-Gather out of place in which gpu r puts its chunk to the input of the others."""
    found = all_gather(3)
    for one in found["gpus"]:
        one["remote_buffers"] = [remote | {"type": "i"} for remote in one["remote_buffers"]]
        for op in one["threadblocks"][0]["ops"]:
            if op["name"] == "put":
                op["dst_buff"] = [remote | {"index": 0} for remote in op["dst_buff"]]
    return found


GOOD = {
    "multicast": multicast,
    "all-gather": all_gather,
    "all-gather over ports": lambda: all_gather(3, "port"),
    "put with signal": by_port,
    "put with signal and flush": lambda: put_and_signal("pwsf"),
    "all-reduce": all_reduce,
    "read and reduce": read_reduce,
    "semaphore": by_semaphore,
}


def ops(found, rank=0, tb=0):
    return found["gpus"][rank]["threadblocks"][tb]["ops"]


def plan_file(folder, plan):
    """The path of a file with a plan."""
    path = folder / "plan.json"
    path.write_text(plan if isinstance(plan, str) else json.dumps(plan))
    return path
