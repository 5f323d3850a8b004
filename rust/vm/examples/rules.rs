//! Writes `docs/rules.md`.

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules.md");
    std::fs::write(path, pallas_rs_vm::rules::to_markdown())
}
