//! The XLA custom call.
