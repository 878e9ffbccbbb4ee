//! The worked examples of the thesis's chapter 4, on networks that show what its figures show: their drawings are not
//! in the text, and what the text says of them fixes the numbers.

use capillary::{Orientation, Topology, solve_certified};

/// All links lead from the sender, "s", at the top down to the receiver, "t", with capacity 1.
fn network(links: &[(&str, &str)]) -> Topology {
    let links = links.iter().map(|&(from, to)| (from, to, 1.0));
    Topology::from_links(Orientation::Directed, links).unwrap()
}

/// Figures 27 to 29: the first layer splits the flow into two and has two bottlenecks; the second "minimizes to 1/3 the
/// maximal load of the remaining seven links and identifies three bottlenecks"; the third "minimizes to 1/4 the maximal
/// load of the remaining four links and identifies two".
fn figures_27_to_29() -> Topology {
    network(&[
        ("s", "d"),
        ("s", "e"),
        ("d", "f"),
        ("e", "t"),
        ("c", "d"),
        ("d", "f"),
        ("c", "e"),
        ("s", "c"),
        ("f", "t"),
    ])
}

#[test]
fn figures_27_to_29_have_layers_of_two_three_and_two_bottlenecks() {
    let topology = figures_27_to_29();
    let (s, t) = (topology.node("s").unwrap(), topology.node("t").unwrap());
    let solution = solve_certified(&topology, s, t).unwrap();
    solution.certificate.verify(&topology, &solution.routing).unwrap();
    let members = |number: u32| -> Vec<usize> {
        let links = solution.routing.links().iter().enumerate();
        links.filter(|(_, link)| link.layer == Some(number)).map(|(index, _)| index).collect()
    };
    let layers = solution.routing.layers();
    let mut left = topology.link_count();
    assert_eq!(left, 9);
    for (number, (load, bottlenecks, behind)) in
        (1..).zip([(1.0 / 2.0, 2, 7), (1.0 / 3.0, 3, 4), (1.0 / 4.0, 2, 2)])
    {
        let layer = layers[number as usize - 1];
        left -= members(number).len();
        assert!((layer.load - load).abs() < 1e-12, "{layer:?}");
        assert_eq!((members(number).len(), left), (bottlenecks, behind), "layer {number}");
    }
}

/// The same by linear programs as in the thesis: as many bottlenecks are left at the end of each hunt, and the growth
/// of the flow is what the loads are divided by: 2, 3/2 and 4/3.
#[cfg(feature = "lp")]
#[test]
fn the_hunting_loop_finds_the_bottlenecks_of_figures_27_to_29() {
    let topology = figures_27_to_29();
    let (s, t) = (topology.node("s").unwrap(), topology.node("t").unwrap());
    let solution = capillary::lp::solve(&topology, s, t).unwrap();
    for (hunt, (ratio, bottlenecks)) in solution.hunts.iter().zip([(2.0, 2), (1.5, 3), (4.0 / 3.0, 2)]) {
        assert!((hunt.ratio - ratio).abs() < 1e-9, "{hunt:?}");
        assert_eq!(hunt.bottlenecks(), bottlenecks, "{hunt:?}");
    }
}

/// Figures 37 to 40: a layer of which the flow "can be proportionally increased at most by a factor of 4/3", with four
/// suspects, of which the loop drops one in each of two iterations; "the two bottlenecks are found in two iterations".
/// It is the third layer of this network. (Which suspects there are depends on the flow that the linear program finds,
/// and is the same in every run.)
#[cfg(feature = "lp")]
#[test]
fn a_layer_as_that_of_figures_37_to_40_drops_one_suspect_in_each_iteration() {
    let topology = network(&[
        ("a", "c"),
        ("b", "t"),
        ("s", "a"),
        ("b", "t"),
        ("s", "a"),
        ("a", "c"),
        ("a", "c"),
        ("a", "b"),
        ("c", "t"),
        ("s", "a"),
    ]);
    let (s, t) = (topology.node("s").unwrap(), topology.node("t").unwrap());
    let solution = capillary::lp::solve(&topology, s, t).unwrap();
    let hunt = &solution.hunts[2];
    assert!((hunt.ratio - 4.0 / 3.0).abs() < 1e-9, "{hunt:?}");
    // The last program finds that none can be dropped any more.
    assert_eq!((hunt.suspects.as_slice(), hunt.iterations()), (&[4, 3, 2, 2][..], 3));
    let load = |link: usize| solution.routing.links()[link].load;
    assert!([1, 3].into_iter().all(|link| (load(link) - 0.25).abs() < 1e-9), "b to t, twice");
}
