//! Programs survive every form they travel in, and damaged ones are refused without a panic.

mod support;

use pallas_rs_ir::builder::Builder;
use pallas_rs_ir::program::MAX_DEPTH;
use pallas_rs_ir::wire::{self, FORMAT, WireError};
use pallas_rs_ir::{Inst, Program, Region, assemble, parse, verify};
use proptest::prelude::*;

fn programs() -> impl Strategy<Value = Program> {
    (prop::collection::vec(any::<u8>(), 0..120), any::<String>())
        .prop_map(|(choices, name)| support::program(&choices, &name))
}

/// Replaces, removes or inserts bytes.
fn damaged(bytes: &[u8], edits: &[(u8, prop::sample::Index, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (kind, place, byte) in edits {
        if bytes.is_empty() {
            break;
        }
        let at = place.index(bytes.len());
        match kind % 4 {
            0 => bytes[at] = *byte,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, *byte),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn edits() -> impl Strategy<Value = Vec<(u8, prop::sample::Index, u8)>> {
    prop::collection::vec(any::<(u8, prop::sample::Index, u8)>(), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn wire_json_and_text_give_the_program_back(program in programs()) {
        prop_assert_eq!(&wire::decode(&wire::encode(&program)).unwrap(), &program);
        prop_assert_eq!(&parse(&program.to_string()).unwrap(), &program);
        let json = serde_json::to_string(&program).unwrap();
        let bytes = assemble(&json, program.blobs.clone()).unwrap();
        prop_assert_eq!(&wire::decode(&bytes).unwrap(), &program);
    }

    #[test]
    fn damaged_bytes_do_no_harm(program in programs(), edits in edits()) {
        if let Ok(program) = wire::decode(&damaged(&wire::encode(&program), &edits)) {
            if verify(&program).is_ok() {
                prop_assert_eq!(&parse(&program.to_string()).unwrap(), &program);
            } else {
                let _ = program.to_string();
            }
        }
    }

    #[test]
    fn damaged_text_does_no_harm(program in programs(), edits in edits()) {
        let bytes = damaged(program.to_string().as_bytes(), &edits);
        if let Ok(program) = parse(&String::from_utf8_lossy(&bytes)) {
            let _ = verify(&program);
        }
    }

    #[test]
    fn damaged_json_does_no_harm(program in programs(), edits in edits()) {
        let bytes = damaged(serde_json::to_string(&program).unwrap().as_bytes(), &edits);
        let _ = assemble(&String::from_utf8_lossy(&bytes), program.blobs);
    }
}

fn nested(depth: usize) -> Program {
    let mut b = Builder::new("nest");
    b.repeat(1, |_, _| ());
    let mut program = b.finish();
    let template = program.body.insts.pop().unwrap();
    let mut inner = Region::default();
    for _ in 0..depth {
        let inst = Inst { regions: vec![inner], ..template.clone() };
        inner = Region { insts: vec![inst], ..Region::default() };
    }
    program.body = inner;
    program
}

/// Also on the small stack of a worker thread.
#[test]
fn depth_is_limited() {
    let run = || {
        assert!(wire::decode(&wire::encode(&nested(MAX_DEPTH))).is_ok());
        let error = wire::decode(&wire::encode(&nested(MAX_DEPTH + 1))).unwrap_err();
        assert!(matches!(error, WireError::Damaged(_)));
        assert!(wire::decode(&wire::encode(&nested(MAX_DEPTH))).is_ok());
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn foreign_bytes_are_told_apart() {
    assert_eq!(wire::decode(b"ELF"), Err(WireError::Magic));
    let mut bytes = wire::encode(&nested(0));
    let at = bytes.windows(FORMAT.len()).position(|w| w == FORMAT.as_bytes()).unwrap();
    bytes[at] = if FORMAT.starts_with('0') { b'1' } else { b'0' };
    let error = wire::decode(&bytes).unwrap_err();
    assert!(matches!(error, WireError::Format { .. }), "{error}");
    assert!(error.to_string().contains("export it again"), "{error}");
}

#[test]
fn assemble_says_what_is_wrong() {
    let error = assemble("{}", Vec::new()).unwrap_err();
    assert!(error.contains("missing field"), "{error}");
    let mut program = nested(0);
    program.num_threads = 0;
    let json = serde_json::to_string(&program).unwrap();
    let error = assemble(&json, Vec::new()).unwrap_err();
    assert_eq!(error, "program: threads: expected 1 to 1024, got 0");
}
