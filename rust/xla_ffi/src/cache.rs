//! Decoded programs, shared by all call sites that carry the same bytes.
//!
//! XLA instantiates a call site anew for every executable, also when it comes from the persistent
//! compilation cache. The cache holds programs weakly: they live as long as an executable needs them.

use rustc_hash::FxHashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use pallas_rs_vm::Executable;

type Programs = FxHashMap<Box<[u8]>, Weak<Executable>>;

static PROGRAMS: LazyLock<Mutex<Programs>> = LazyLock::new(Mutex::default);

/// The decoded program of `wire`, from the cache if some executable still uses it.
pub(crate) fn load(wire: &[u8]) -> Result<Arc<Executable>, String> {
    if let Some(found) = lock().get(wire).and_then(Weak::upgrade) {
        return Ok(found);
    }
    // Decoding takes no lock: large programs of one module are instantiated on several threads.
    let loaded = Executable::load(wire)?;
    let mut programs = lock();
    if let Some(found) = programs.get(wire).and_then(Weak::upgrade) {
        return Ok(found);
    }
    programs.retain(|_, program| program.strong_count() > 0);
    programs.insert(wire.into(), Arc::downgrade(&loaded));
    Ok(loaded)
}

fn lock() -> std::sync::MutexGuard<'static, Programs> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}
