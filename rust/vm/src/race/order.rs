//! The order that a grid itself gives to its points.

/// Which points of a grid one block runs one after another.
#[derive(Debug, Default)]
pub(super) struct GridOrder {
    /// Bounds, and whether the dimension is run in order.
    dims: Vec<(u64, bool)>,
}

impl GridOrder {
    pub(super) fn new(bounds: &[u64], sequential: &[usize]) -> GridOrder {
        let in_order = |d| sequential.contains(&d);
        GridOrder { dims: bounds.iter().enumerate().map(|(d, &n)| (n, in_order(d))).collect() }
    }

    /// Whether two points differ only along dimensions that are run in order.
    pub(super) fn is_in_order(&self, mut a: u64, mut b: u64) -> bool {
        a != b
            && self.dims.iter().any(|&(_, in_order)| in_order)
            && self.dims.iter().rev().all(|&(bound, in_order)| {
                let same = a % bound.max(1) == b % bound.max(1);
                (a, b) = (a / bound.max(1), b / bound.max(1));
                same || in_order
            })
    }
}
