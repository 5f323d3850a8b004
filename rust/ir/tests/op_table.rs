//! The op table and what is generated from it.

use pallas_rs_ir::reference::op_reference;
use pallas_rs_ir::{OPS, Op};
use std::collections::BTreeSet;

#[test]
fn the_reference_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/op-reference.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let hint = "run `cargo run -p pallas_rs_ir --example op_reference`";
    assert!(
        written == op_reference(),
        "docs/op-reference.md is not what the op table says: {hint}"
    );
}

#[test]
fn mnemonics_are_distinct_and_those_of_the_json_form() {
    let names: BTreeSet<&str> = OPS.iter().map(|row| row.mnemonic).collect();
    assert_eq!(names.len(), OPS.len());
    for row in OPS.iter().filter(|row| row.attributes.is_empty()) {
        let json = format!("{{\"{}\": {{}}}}", row.mnemonic);
        let op: Op = serde_json::from_str(&json).unwrap();
        assert_eq!(op.mnemonic(), row.mnemonic);
    }
    let error = serde_json::from_str::<Op>("{\"no_such_op\": {}}").unwrap_err().to_string();
    for row in OPS {
        assert!(error.contains(&format!("`{}`", row.mnemonic)), "{} in {error}", row.mnemonic);
    }
}

#[test]
fn every_row_is_documented() {
    for row in OPS {
        assert!(row.doc.trim_end().ends_with('.'), "{}", row.mnemonic);
    }
}

/// Instructions are kept in vectors by the thousand.
#[test]
fn an_op_is_small() {
    assert!(size_of::<Op>() <= 104, "{}", size_of::<Op>());
}
