#!/usr/bin/env python3
"""Checks plans of `capillary plan --demands … --json` without any code of capillary.

    python3 levels.py PLAN.json …            # needs networkx for the certificates, scipy for the chain
    python3 levels.py --no-chain PLAN.json … # certificates alone

Certificates: the prices of each bound, Dijkstra's shortest paths by networkx, and the formula
t >= (sum demand*distance - sum price*capacity*level over settled arcs) / (sum price*capacity over free arcs).
Chain: a linear program per level by HiGHS (scipy); arcs with a dual price stay, and the next level follows.
Every utilisation must agree to 1e-6 of the largest.
"""

import json
import sys
from collections import defaultdict

# How far HiGHS may be off, and how much of the smallest arc's capacity a settled arc may carry beyond its level: the
# first that HiGHS comes to an end with, for amounts may be too large for the others.
PRECISION = [1e-10, 1e-9, 1e-8, 1e-7]


def demands_of(plan):
    demands = {(path["from"], path["to"]): path["demand"] for path in plan["paths"]}
    assert len(demands) == plan["demands"], "a demand has no path"
    return demands


def check_flows(plan):
    """The paths lead from source to target, carry the demands and load the arcs as the plan says."""
    arcs, load, carried = plan["arcs"], defaultdict(float), defaultdict(float)
    for path in plan["paths"]:
        here = path["from"]
        for index in path["arcs"]:
            assert arcs[index]["from"] == here, "a path is broken"
            here = arcs[index]["to"]
            load[index] += path["amount"]
        assert here == path["to"], "a path ends elsewhere"
        carried[path["from"], path["to"]] += path["amount"]
    for pair, amount in demands_of(plan).items():
        assert abs(carried[pair] - amount) <= 1e-9 * amount, f"{pair} gets {carried[pair]} of {amount}"
    largest = max(arc["load"] for arc in arcs)
    for index, arc in enumerate(arcs):
        assert abs(load[index] - arc["load"]) <= 1e-9 * largest, f"arc {index} carries {load[index]}"


def check_certificate(plan):
    import networkx

    arcs, levels, demands = plan["arcs"], plan["levels"], demands_of(plan)
    to_target = defaultdict(dict)
    for (source, target), amount in demands.items():
        to_target[target][source] = amount
    settled = {}
    for number, bound in enumerate(plan["certificate"]):
        price = dict(bound["prices"])
        graph = networkx.DiGraph()
        for index, arc in enumerate(arcs):  # reversed: distances to the target
            ends, length = (arc["to"], arc["from"]), price.get(index, 0.0)
            if not graph.has_edge(*ends) or length < graph.edges[ends]["length"]:
                graph.add_edge(*ends, length=length)
        paid = 0.0
        for target, sources in to_target.items():
            distance = networkx.single_source_dijkstra_path_length(graph, target, weight="length")
            paid += sum(amount * distance[source] for source, amount in sources.items())
        free = sum(p * arcs[a]["capacity"] for a, p in price.items() if a not in settled)
        held = sum(p * arcs[a]["capacity"] * settled[a] for a, p in price.items() if a in settled)
        level = levels[bound["level"] - 1]["utilisation"]
        proved = (paid - held) / free
        assert proved >= level - 1e-7 * max(levels[0]["utilisation"], level), f"bound {number}: {proved} < {level}"
        for arc in bound["settled"]:
            assert price.get(arc, 0.0) > 0.0 and arc not in settled
            settled[arc] = level
    for index, arc in enumerate(arcs):
        allowed = settled.get(index, levels[-1]["utilisation"])
        assert arc["utilisation"] <= allowed + 1e-9 * levels[0]["utilisation"], f"arc {index} is above its level"
    return len(plan["certificate"])


def chain(plan):
    """The utilisation of each arc by a chain of linear programs."""
    import numpy
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    arcs, demands = plan["arcs"], demands_of(plan)
    nodes = {name: i for i, name in enumerate(sorted({a["from"] for a in arcs} | {a["to"] for a in arcs}))}
    targets = {name: i for i, name in enumerate(sorted({target for _, target in demands}))}
    n, m, k = len(nodes), len(arcs), len(targets)
    # The smallest capacity is 1 and so is the largest utilisation: what is round-off on a large arc is no more on a
    # small one. The levels are the plan's only in their unit.
    capacity = numpy.array([arc["capacity"] for arc in arcs])
    unit, smallest = plan["levels"][0]["utilisation"], capacity.min()
    capacity = capacity / smallest
    scale = unit * smallest
    rows, columns, values = [], [], []
    for t in range(k):
        for a, arc in enumerate(arcs):
            rows += [t * n + nodes[arc["from"]], t * n + nodes[arc["to"]]]
            columns += [t * m + a] * 2
            values += [1.0, -1.0]
    balance = coo_matrix((values, (rows, columns)), shape=(k * n, k * m + 1)).tocsr()
    supply = numpy.zeros(k * n)
    for (source, target), amount in demands.items():
        supply[targets[target] * n + nodes[source]] += amount / scale
        supply[targets[target] * n + nodes[target]] -= amount / scale
    level = numpy.full(m, numpy.nan)
    cost = numpy.zeros(k * m + 1)
    cost[-1] = 1.0
    while numpy.isnan(level).any():
        rows = [a for t in range(k) for a in range(m)] + [a for a in range(m) if numpy.isnan(level[a])]
        columns = list(range(k * m)) + [k * m] * int(numpy.isnan(level).sum())
        values = [1.0] * (k * m) + [-capacity[a] for a in range(m) if numpy.isnan(level[a])]
        load = coo_matrix((values, (rows, columns)), shape=(m, k * m + 1)).tocsr()
        for precision in PRECISION:
            limit = numpy.nan_to_num(level * capacity + precision, nan=0.0)
            options = {"primal_feasibility_tolerance": precision, "dual_feasibility_tolerance": precision}
            solved = linprog(cost, A_ub=load, b_ub=limit, A_eq=balance, b_eq=supply, method="highs", options=options)
            if solved.status == 0:
                break
        assert solved.status == 0, solved.message
        t = solved.x[-1]
        if t <= 1e-9:
            level[numpy.isnan(level)] = 0.0
            break
        price = -solved.ineqlin.marginals
        held = numpy.isnan(level) & (price * capacity > 1e-6)
        assert held.any()
        level[held] = t
    return level * unit


def main():
    with_chain = "--no-chain" not in sys.argv
    for name in [argument for argument in sys.argv[1:] if not argument.startswith("--")]:
        plan = json.load(open(name))
        check_flows(plan)
        bounds = check_certificate(plan)
        text = f"{name}: {plan['demands']} demands, {len(plan['levels'])} levels, {bounds} bounds hold"
        if with_chain:
            largest = plan["levels"][0]["utilisation"]
            level = chain(plan)
            error = max(abs(arc["utilisation"] - level[a]) for a, arc in enumerate(plan["arcs"])) / largest
            assert error <= 1e-6, f"{name}: an arc is off by {error} of the largest utilisation"
            text += f", chain of linear programs agrees to {error:.1e}"
        print(text)


if __name__ == "__main__":
    main()
