//! What a kernel says.
