//! What a run did, counted.

use serde::Serialize;

/// Counters of a run. Workers count for themselves and are added up at the end, so that the sums do
/// not depend on their number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Blocks that ran.
    pub blocks: u64,
    /// Instructions executed.
    pub ops: u64,
    /// Bytes that TMA and cp.async copies moved.
    pub tma_bytes: u64,
    /// Multiplications and additions of the tensor cores.
    pub tensor_core_flops: u64,
    /// Calls of ops left to XLA, by name, in order of the name.
    #[serde(serialize_with = "as_map")]
    pub fallback_calls: Vec<(String, u64)>,
}

impl Stats {
    /// Counts one call of an op left to XLA.
    pub fn count_fallback(&mut self, name: &str) {
        self.add_fallback(name, 1);
    }

    /// Adds what another worker counted.
    pub fn merge(&mut self, other: &Stats) {
        self.blocks += other.blocks;
        self.ops += other.ops;
        self.tma_bytes += other.tma_bytes;
        self.tensor_core_flops += other.tensor_core_flops;
        for (name, calls) in &other.fallback_calls {
            self.add_fallback(name, *calls);
        }
    }

    fn add_fallback(&mut self, name: &str, calls: u64) {
        match self.fallback_calls.binary_search_by(|(n, _)| n.as_str().cmp(name)) {
            Ok(i) => self.fallback_calls[i].1 += calls,
            Err(i) => self.fallback_calls.insert(i, (name.to_owned(), calls)),
        }
    }
}

fn as_map<S: serde::Serializer>(calls: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(calls.iter().map(|(name, n)| (name, n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up() {
        let mut total = Stats::default();
        for name in ["sort", "fft", "sort"] {
            let mut worker = Stats { blocks: 1, ops: 10, ..Stats::default() };
            worker.count_fallback(name);
            total.merge(&worker);
        }
        assert_eq!((total.blocks, total.ops), (3, 30));
        let json = serde_json::to_string(&total).unwrap();
        assert!(json.ends_with(r#""fallback_calls":{"fft":1,"sort":2}}"#), "{json}");
    }
}
