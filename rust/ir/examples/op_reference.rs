//! Writes `docs/op-reference.md`.

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/op-reference.md");
    std::fs::write(path, pallas_rs_ir::reference::op_reference())
}
