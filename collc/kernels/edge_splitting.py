"""Removal of switches by edge splitting, and packing of spanning trees (Zhao et al., ForestColl, 2024, 5.2-5.3).

Functions of flat sequences that run in plain Python and compiled (collc/kernels/compiled.py). A matrix of capacities
between n vertices is one sequence: capacity[u * n + v]. The requirement that stays true throughout: with a source that
has an arc of capacity demand[m] to every member m, the flow from the source to each member is the sum of the demands
(then trees exist that deliver demand[m] units from every member m to all others: Edmonds 1973).
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

UNLIMITED = 1 << 60
"""A capacity that no cut of finite capacity contains."""


def dense_augment(
    residual: MutableSequence[int],
    n: int,
    source: int,
    sink: int,
    most: int,
    level: MutableSequence[int],
    queue: MutableSequence[int],
    cursor: MutableSequence[int],
    path: MutableSequence[int],
) -> int:
    """Send flow from source to sink, at most `most`, through a residual matrix; returns how much (Dinic 1970)."""
    total = 0
    while total < most and _level(residual, n, source, sink, level, queue, cursor):
        depth = 0
        path[0] = source
        while depth >= 0 and total < most:
            vertex = path[depth]
            if vertex == sink:
                amount = most - total
                for hop in range(depth):
                    amount = min(amount, residual[path[hop] * n + path[hop + 1]])
                total += amount
                depth = _push(residual, n, path, depth, amount)
                continue
            while cursor[vertex] < n:
                after = cursor[vertex]
                if level[after] == level[vertex] - 1 and residual[vertex * n + after] > 0:
                    break
                cursor[vertex] += 1
            if cursor[vertex] < n:
                depth += 1
                path[depth] = cursor[vertex]
            else:
                level[vertex] = -2
                depth -= 1
                if depth >= 0:
                    cursor[path[depth]] += 1
    return total


def _level(
    residual: Sequence[int],
    n: int,
    source: int,
    sink: int,
    level: MutableSequence[int],
    queue: MutableSequence[int],
    cursor: MutableSequence[int],
) -> bool:
    """Fill level with the hops to the sink, as far as the source; returns whether a path leads from there."""
    for vertex in range(n):
        level[vertex] = -1
        cursor[vertex] = 0
    level[sink] = 0
    queue[0] = sink
    begin, end = 0, 1
    while begin < end and level[source] < 0:
        vertex = queue[begin]
        begin += 1
        for before in range(n):
            if level[before] < 0 and residual[before * n + vertex] > 0:
                level[before] = level[vertex] + 1
                queue[end] = before
                end += 1
    return level[source] >= 0


def _push(residual: MutableSequence[int], n: int, path: Sequence[int], depth: int, amount: int) -> int:
    """Send an amount along a path; returns the number of the first vertex behind which nothing is left."""
    first = 0
    for hop in range(depth - 1, -1, -1):
        residual[path[hop] * n + path[hop + 1]] -= amount
        residual[path[hop + 1] * n + path[hop]] += amount
        if residual[path[hop] * n + path[hop + 1]] == 0:
            first = hop
    return first


def _begin(
    capacity: Sequence[int], n: int, members: Sequence[int], demand: Sequence[int], residual: MutableSequence[int]
) -> int:
    """Fill the residual matrix of n + 1 vertices, the last of which is the source; returns the sum of the demands."""
    wide = n + 1
    for u in range(n):
        for v in range(n):
            residual[u * wide + v] = capacity[u * n + v]
        residual[u * wide + n] = 0
        residual[n * wide + u] = 0
    residual[n * wide + n] = 0
    total = 0
    for number in range(len(members)):
        residual[n * wide + members[number]] = demand[number]
        total += demand[number]
    return total


def _least_surplus(
    residual: MutableSequence[int],
    copy: MutableSequence[int],
    n: int,
    sink: int,
    members: Sequence[int],
    total: int,
    most: int,
    level: MutableSequence[int],
    queue: MutableSequence[int],
    cursor: MutableSequence[int],
    path: MutableSequence[int],
) -> int:
    """Of all cuts with the sink and a member on the sink's side: the least capacity - total, at most `most`."""
    wide = n + 1
    base = dense_augment(residual, wide, n, sink, total + most, level, queue, cursor, path)
    least = most
    if base >= total + most:
        return least
    for member in members:
        for place in range(wide * wide):
            copy[place] = residual[place]
        copy[member * wide + sink] = UNLIMITED
        sent = base + dense_augment(copy, wide, n, sink, total + least - base, level, queue, cursor, path)
        least = min(least, sent - total)
        if least <= 0:
            return 0
    return least


def _splittable(
    capacity: Sequence[int],
    n: int,
    members: Sequence[int],
    demand: Sequence[int],
    u: int,
    w: int,
    t: int,
    most: int,
    residual: MutableSequence[int],
    copy: MutableSequence[int],
    level: MutableSequence[int],
    queue: MutableSequence[int],
    cursor: MutableSequence[int],
    path: MutableSequence[int],
) -> int:
    """How much of the capacities (u, w) and (w, t) can become capacity (u, t), or go where u = t; at most `most`."""
    wide = n + 1
    total = _begin(capacity, n, members, demand, residual)
    residual[n * wide + u] = UNLIMITED
    residual[n * wide + t] = UNLIMITED
    least = _least_surplus(residual, copy, n, w, members, total, most, level, queue, cursor, path)
    if least <= 0:
        return 0
    total = _begin(capacity, n, members, demand, residual)
    residual[n * wide + w] = UNLIMITED
    if u != t:
        residual[u * wide + t] = UNLIMITED
    return _least_surplus(residual, copy, n, t, members, total, least, level, queue, cursor, path)


def split_switches(
    capacity: MutableSequence[int],
    n: int,
    members: Sequence[int],
    demand: Sequence[int],
    order: Sequence[int],
    group: Sequence[int],
    rows: MutableSequence[int],
) -> int:
    """Replace the capacity through each vertex of `order` by capacity between the others.

    group: of each vertex, -1 of those that are no members. Pairs of members of unlike groups are joined first, then all
    pairs of members, then capacity that leads back is dropped, then the rest follows: so paths stay short. rows: room;
    filled with (u, w, t, amount): that much of (u, w) and (w, t) became (u, t). Returns how many rows, or -1 where a
    vertex keeps capacity in and out, or the room does not suffice.
    """
    wide = n + 1
    residual = list(range(wide * wide))
    copy = list(range(wide * wide))
    level, queue, cursor, path = list(range(wide)), list(range(wide + 1)), list(range(wide)), list(range(wide + 1))
    count = 0
    for w in order:
        for rank in range(4):
            for u in range(n):
                for distance in range(n):
                    t = (u + distance) % n
                    most = min(capacity[u * n + w], capacity[w * n + t])
                    if most <= 0:
                        continue
                    if _rank(u, t, group) != rank:
                        continue
                    amount = _splittable(
                        capacity, n, members, demand, u, w, t, most, residual, copy, level, queue, cursor, path
                    )
                    if amount <= 0:
                        continue
                    if 4 * count + 4 > len(rows):
                        return -1
                    capacity[u * n + w] -= amount
                    capacity[w * n + t] -= amount
                    if u != t:
                        capacity[u * n + t] += amount
                    rows[4 * count] = u
                    rows[4 * count + 1] = w
                    rows[4 * count + 2] = t
                    rows[4 * count + 3] = amount
                    count += 1
        if _is_passed(capacity, n, w):
            return -1
    return count


def _rank(u: int, t: int, group: Sequence[int]) -> int:
    """When a pair is joined: 0 first."""
    if u == t:
        return 2
    if group[u] >= 0 and group[t] >= 0:
        return 0 if group[u] != group[t] else 1
    return 3


def _is_passed(capacity: Sequence[int], n: int, w: int) -> bool:
    """Whether a vertex has capacity both in and out."""
    into, out = 0, 0
    for u in range(n):
        into += capacity[u * n + w]
        out += capacity[w * n + u]
    return into > 0 and out > 0


def _joinable(
    capacity: Sequence[int],
    n: int,
    x: int,
    y: int,
    waiting: Sequence[int],
    batches: int,
    current: int,
    amounts: Sequence[int],
    reached: Sequence[int],
    most: int,
    residual: MutableSequence[int],
    level: MutableSequence[int],
    queue: MutableSequence[int],
    cursor: MutableSequence[int],
    path: MutableSequence[int],
) -> int:
    """How many trees of the current batch may take edge (x, y): the flow from x to y beyond what others need.

    Every other batch is a vertex that x feeds with its amount, and that leads to all that the batch has reached.
    """
    size = n + batches
    others = 0
    for u in range(n):
        for v in range(n):
            residual[u * size + v] = capacity[u * n + v]
    for u in range(size):
        for batch in range(n, size):
            residual[u * size + batch] = 0
            residual[batch * size + u] = 0
    for z in range(n):
        others += waiting[z]
        if z != x:
            residual[x * size + z] += waiting[z]
    for batch in range(batches):
        if batch != current:
            others += amounts[batch]
            residual[x * size + n + batch] = amounts[batch]
            for z in range(n):
                if reached[batch * n + z]:
                    residual[(n + batch) * size + z] = UNLIMITED
    sent = dense_augment(residual, size, x, y, others + most, level, queue, cursor, path)
    return min(most, sent - others)


def _next_edge(
    capacity: Sequence[int],
    n: int,
    current: int,
    joined: Sequence[int],
    count: int,
    reached: Sequence[int],
    refused: Sequence[int],
) -> int:
    """Return x * n + y for the widest edge (x, y) of the first vertex x with one out of a batch, or -1."""
    for number in range(count):
        x = joined[current * n + number]
        widest = -1
        for y in range(n):
            free = capacity[x * n + y] > 0 and not reached[current * n + y] and not refused[x * n + y]
            if free and (widest < 0 or capacity[x * n + y] > capacity[x * n + widest]):
                widest = y
        if widest >= 0:
            return x * n + widest
    return -1


def pack_trees(  # noqa: PLR0912, PLR0915 - one loop over a stack of batches
    capacity: MutableSequence[int],
    n: int,
    demand: Sequence[int],
    depth: int,
    roots: MutableSequence[int],
    amounts: MutableSequence[int],
    parents: MutableSequence[int],
    orders: MutableSequence[int],
) -> int:
    """Pack demand[m] spanning trees from each vertex m, in batches of equal trees (Tarjan 1974, Lovasz 1976).

    capacity: n x n, of which the trees take theirs. depth: batches that may be begun at once. roots, amounts: room for
    a batch each; parents, orders: for n numbers a batch: the vertex from which each vertex gets its data (-1 for the
    root), and the vertices in the order in which they joined. Returns how many batches, or -1 where the room does not
    suffice or the trees do not exist.
    """
    size = n + depth
    residual = list(range(size * size))
    level, queue, cursor, path = list(range(size)), list(range(size + 1)), list(range(size)), list(range(size + 1))
    waiting = [demand[z] for z in range(n)]
    amount = [0 for _ in range(depth)]
    count = [0 for _ in range(depth)]
    reached = [0 for _ in range(depth * n)]
    parent = [0 for _ in range(depth * n)]
    joined = [0 for _ in range(depth * n)]
    refused = [0 for _ in range(n * n)]
    done = 0
    for root in range(n):
        if waiting[root] == 0:
            continue
        waiting[root] = 0
        for z in range(n):
            reached[z] = 0
            parent[z] = -1
        amount[0], count[0], reached[root], joined[0] = demand[root], 1, 1, root
        batches = 1
        while batches > 0:
            current = batches - 1
            for place in range(n * n):
                refused[place] = 0
            while count[current] < n:
                edge = _next_edge(capacity, n, current, joined, count[current], reached, refused)
                if edge < 0:
                    return -1
                x, y = edge // n, edge % n
                most = min(capacity[x * n + y], amount[current])
                taken = _joinable(
                    capacity, n, x, y, waiting, batches, current, amount, reached, most, residual, level, queue,
                    cursor, path,
                )  # fmt: skip
                if taken <= 0:
                    refused[x * n + y] = 1
                    continue
                if taken < amount[current]:
                    if batches == depth:
                        return -1
                    for z in range(n):
                        reached[batches * n + z] = reached[current * n + z]
                        parent[batches * n + z] = parent[current * n + z]
                        joined[batches * n + z] = joined[current * n + z]
                    amount[batches], count[batches] = taken, count[current]
                    amount[current] -= taken
                    current = batches
                    batches += 1
                capacity[x * n + y] -= taken
                reached[current * n + y] = 1
                parent[current * n + y] = x
                joined[current * n + count[current]] = y
                count[current] += 1
            if done == len(roots):
                return -1
            roots[done], amounts[done] = root, amount[current]
            for z in range(n):
                parents[done * n + z] = parent[current * n + z]
                orders[done * n + z] = joined[current * n + z]
            done += 1
            batches -= 1
    return done
