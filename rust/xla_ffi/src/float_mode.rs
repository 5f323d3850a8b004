//! The floating-point mode of the calling thread.
//!
//! XLA calls handlers with denormals flushed to zero, on x86 and on Arm. Which ops of a kernel flush
//! is the GPU's rule and the machine's business, so it runs in the plain IEEE mode: round to nearest,
//! denormals kept, no traps. Threads started meanwhile inherit it.

/// Sets the plain mode; dropping it restores what was before.
#[derive(Debug)]
pub(crate) struct PlainFloatMode {
    previous: imp::Mode,
}

impl PlainFloatMode {
    pub(crate) fn enter() -> PlainFloatMode {
        let previous = imp::get();
        imp::set(imp::PLAIN);
        PlainFloatMode { previous }
    }
}

impl Drop for PlainFloatMode {
    fn drop(&mut self) {
        imp::set(self.previous);
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::asm;

    /// MXCSR.
    pub(super) type Mode = u32;

    /// All exceptions masked, round to nearest, no FTZ, no DAZ: the value at process start.
    pub(super) const PLAIN: Mode = 0x1f80;

    pub(super) fn get() -> Mode {
        let mut mode: Mode = 0;
        // SAFETY: stores four bytes to a live local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack, preserves_flags)) };
        mode
    }

    pub(super) fn set(mode: Mode) {
        // SAFETY: loads four bytes that are a valid MXCSR: a constant, or what `get` read.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, preserves_flags, readonly));
        };
    }
}

#[cfg(target_arch = "aarch64")]
mod imp {
    use std::arch::asm;

    /// FPCR.
    pub(super) type Mode = u64;

    /// Round to nearest, denormals kept, no traps.
    pub(super) const PLAIN: Mode = 0;

    pub(super) fn get() -> Mode {
        let mode: Mode;
        // SAFETY: reading FPCR has no side effect.
        unsafe { asm!("mrs {}, fpcr", out(reg) mode, options(nostack, nomem)) };
        mode
    }

    pub(super) fn set(mode: Mode) {
        // SAFETY: a constant, or what `get` read.
        unsafe { asm!("msr fpcr, {}", in(reg) mode, options(nostack, nomem)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod imp {
    pub(super) type Mode = ();
    pub(super) const PLAIN: Mode = ();
    pub(super) fn get() -> Mode {}
    pub(super) fn set((): Mode) {}
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::hint::black_box;

    use super::{PlainFloatMode, imp};

    fn half_of_smallest_normal() -> f32 {
        black_box(f32::MIN_POSITIVE) * black_box(0.5)
    }

    #[test]
    fn denormals_live_inside_and_the_mode_returns() {
        let flushing = imp::PLAIN | 0x8040;
        imp::set(flushing);
        assert_eq!(half_of_smallest_normal(), 0.0);
        {
            let _plain = PlainFloatMode::enter();
            assert!(half_of_smallest_normal() > 0.0);
        }
        assert_eq!(imp::get() & 0x8040, 0x8040);
        imp::set(imp::PLAIN);
    }
}
