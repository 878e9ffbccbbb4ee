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
    scale = max(demands.values())
    capacity = numpy.array([arc["capacity"] for arc in arcs]) / scale
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
        values = [1.0 / capacity[a] for t in range(k) for a in range(m)] + [-1.0] * int(numpy.isnan(level).sum())
        load = coo_matrix((values, (rows, columns)), shape=(m, k * m + 1)).tocsr()
        limit = numpy.nan_to_num(level, nan=0.0)
        solved = linprog(cost, A_ub=load, b_ub=limit + 1e-10 * (limit > 0), A_eq=balance, b_eq=supply, method="highs")
        assert solved.status == 0, solved.message
        t = solved.x[-1]
        if t <= 1e-9:
            level[numpy.isnan(level)] = 0.0
            break
        price = -solved.ineqlin.marginals
        held = numpy.isnan(level) & (price > 1e-6)
        assert held.any()
        level[held] = t
    return level


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
