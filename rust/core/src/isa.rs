//! Which instruction sets the hot loops are compiled for.

/// Compiles a function for AVX-512 (Ice Lake and newer), for AVX2 and for the baseline; the first
/// call chooses. The loops never contract a product and a sum into one rounding, so all three give
/// the same bits.
///
/// A debug build has the baseline alone: it compiles in a third of the time.
macro_rules! for_each_isa {
    ($($function:tt)*) => {
        #[cfg_attr(not(debug_assertions), multiversion::multiversion(targets(
            "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx512cd+avx2+bmi2+lzcnt+popcnt",
            "x86_64+avx2+bmi2+lzcnt+popcnt",
        )))]
        $($function)*
    };
}
pub(crate) use for_each_isa;
