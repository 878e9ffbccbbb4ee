//! Where members stand on a map. Equal overlays have equal maps.

use std::collections::VecDeque;

/// Sweeps over the columns; after a few nothing moves any more.
const SWEEPS: usize = 8;

/// A place in the unit square.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    /// From the column of the `starts` to the last one.
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// The distance of each of `count` members in links from the nearest of `starts`; without any of those from the first
/// member. Members that cannot be reached stand in a column of their own behind all others.
pub(crate) fn columns(count: usize, starts: &[usize], links: &[(usize, usize)]) -> Vec<usize> {
    let mut distances: Vec<Option<usize>> = vec![None; count];
    let mut waiting: VecDeque<usize> = starts.iter().copied().collect();
    if waiting.is_empty() && count > 0 {
        waiting.push_back(0);
    }
    waiting.iter().for_each(|start| distances[*start] = Some(0));
    let neighbours = neighbours(count, links);
    while let Some(member) = waiting.pop_front() {
        let next = distances[member].map(|distance| distance + 1);
        for &neighbour in &neighbours[member] {
            if distances[neighbour].is_none() {
                distances[neighbour] = next;
                waiting.push_back(neighbour);
            }
        }
    }
    let behind = distances.iter().flatten().max().map_or(0, |last| last + 1);
    distances.into_iter().map(|distance| distance.unwrap_or(behind)).collect()
}

/// Places for `count` members in their [`columns`], each near the height of its neighbours, so that few links cross.
pub(crate) fn places(count: usize, starts: &[usize], links: &[(usize, usize)]) -> Vec<Place> {
    let columns = columns(count, starts, links);
    let width = columns.iter().max().map_or(1, |last| last + 1);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); width];
    columns.iter().enumerate().for_each(|(member, column)| rows[*column].push(member));
    let neighbours = neighbours(count, links);
    let mut heights = heights(count, &rows);
    for sweep in 0..SWEEPS {
        // Forward, then back.
        for step in 0..width {
            let column = if sweep % 2 == 0 { step } else { width - 1 - step };
            sort_by_neighbours(&mut rows[column], &neighbours, &heights);
            spread(&rows[column], &mut heights);
        }
    }
    let x = |member: usize| if width < 2 { 0.5 } else { columns[member] as f64 / (width - 1) as f64 };
    (0..count).map(|member| Place { x: x(member), y: heights[member] }).collect()
}

fn neighbours(count: usize, links: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); count];
    for &(a, b) in links {
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    neighbours
}

fn heights(count: usize, rows: &[Vec<usize>]) -> Vec<f64> {
    let mut heights = vec![0.5; count];
    rows.iter().for_each(|column| spread(column, &mut heights));
    heights
}

/// The members of a column at equal distances, in their order.
fn spread(column: &[usize], heights: &mut [f64]) {
    for (row, member) in column.iter().enumerate() {
        heights[*member] = (row as f64 + 0.5) / column.len() as f64;
    }
}

/// By the mean height of their neighbours; those at the same height stay in their order.
fn sort_by_neighbours(column: &mut [usize], neighbours: &[Vec<usize>], heights: &[f64]) {
    let mean = |member: usize| {
        let around = &neighbours[member];
        let sum: f64 = around.iter().map(|neighbour| heights[*neighbour]).sum();
        if around.is_empty() { heights[member] } else { sum / around.len() as f64 }
    };
    // What follows from sums in another order must not change places: a difference that small is none.
    let order = |member: usize| (mean(member) * 1e6).round() as i64;
    column.sort_by_key(|member| order(*member));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client, four relays and three I/O nodes, as in the demo.
    const LINKS: [(usize, usize); 14] = [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (1, 2),
        (3, 4),
        (1, 5),
        (1, 7),
        (2, 5),
        (2, 6),
        (3, 6),
        (4, 6),
        (4, 7),
        (3, 7),
    ];

    #[test]
    fn columns_are_distances_from_the_starts() {
        assert_eq!(columns(5, &[3], &[(3, 1), (3, 2), (1, 0), (1, 2)]), [2, 1, 1, 0, 3]);
        assert_eq!(columns(3, &[], &[(0, 1)]), [0, 1, 2]);
        assert!(columns(0, &[], &[]).is_empty());
    }

    #[test]
    fn equal_overlays_have_equal_maps_and_no_two_members_share_a_place() {
        let map = places(8, &[0], &LINKS);
        assert_eq!(map, places(8, &[0], &LINKS));
        for (index, place) in map.iter().enumerate() {
            assert!((0.0..=1.0).contains(&place.x) && (0.0..=1.0).contains(&place.y), "{place:?}");
            assert!(!map[..index].contains(place), "{map:?}");
        }
        assert_eq!(map[0], Place { x: 0.0, y: 0.5 });
        assert!(map[5..].iter().all(|io_node| io_node.x == 1.0));
    }

    #[test]
    fn neighbours_stand_at_equal_heights_where_they_can() {
        // Listed crosswise: the first start has the last end.
        let map = places(6, &[0, 1, 2], &[(0, 5), (1, 4), (2, 3)]);
        for (start, end) in [(0, 5), (1, 4), (2, 3)] {
            assert_eq!(map[start].y, map[end].y);
        }
    }

    #[test]
    fn the_order_in_which_links_are_listed_changes_nothing() {
        let mut turned: Vec<_> = LINKS.iter().rev().map(|(a, b)| (*b, *a)).collect();
        turned.rotate_left(5);
        assert_eq!(places(8, &[0], &LINKS), places(8, &[0], &turned));
    }
}
