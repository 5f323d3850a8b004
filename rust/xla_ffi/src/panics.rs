//! Panics stop at the edge: unwinding into XLA's frames would be undefined behaviour.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// `Some` while a guarded function runs on this thread; then, what the last panic said.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `f`; a panic becomes the text of an error that says it is a bug.
pub(crate) fn guard<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    remember_panics();
    let outer = LAST_PANIC.replace(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(f));
    let said = LAST_PANIC.replace(outer).unwrap_or_default();
    result.map_err(|payload| {
        let said = if said.is_empty() { text_of(&*payload) } else { &said };
        format!(
            "pallas_rs.InternalError: {said}\nthis is a bug in pallas-rs, not in your kernel; please report it"
        )
    })
}

/// What a panic raised on another thread, and resumed here, carries.
fn text_of(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "panic"
    }
}

/// Where a panic came from is known to the hook only, so one is put before the current one. It
/// keeps quiet about panics that `guard` turns into errors and passes on all others.
fn remember_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let kept = LAST_PANIC.try_with(|last| match &mut *last.borrow_mut() {
                Some(text) => {
                    *text = info.to_string();
                    true
                }
                None => false,
            });
            if kept != Ok(true) {
                previous(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::guard;

    #[test]
    fn a_panic_becomes_text_with_its_place() {
        let text = guard(|| -> () { panic!("index {} is gone", 7) }).unwrap_err();
        assert!(text.starts_with("pallas_rs.InternalError: "), "{text}");
        assert!(text.contains("index 7 is gone") && text.contains("panics.rs"), "{text}");
        assert!(text.contains("this is a bug in pallas-rs"), "{text}");
    }

    #[test]
    fn a_panic_of_another_thread_keeps_its_text() {
        let worker = std::thread::spawn(|| std::panic::panic_any("worker fell over"));
        let payload = worker.join().unwrap_err();
        let text = guard(|| -> () { std::panic::resume_unwind(payload) }).unwrap_err();
        assert!(text.contains("worker fell over"), "{text}");
    }

    #[test]
    fn values_pass() {
        assert_eq!(guard(|| 3), Ok(3));
    }
}
