//! The public functions against XLA's recorded results, plain loops and `f64`.

mod accuracy;
mod golden;
mod products;
mod reductions;
mod scalars;
mod shapes;
