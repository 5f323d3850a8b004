//! `docs/op-reference.md`, from the op table. `cargo run -p pallas_rs_ir --example op_reference`
//! writes it; a test compares.

use crate::lane::LANE_OPS;
use crate::op::{Count, OPS, OpInfo, OperandKind};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Op reference

Generated from `rust/ir/src/op_table.rs`; do not edit. Write it again with
`cargo run -p pallas_rs_ir --example op_reference`.

An operand is a *scalar* (rank 0, at most 64 bits), a *tile* (dtype and static shape), a *ref* (a view
of memory), a *value* (scalar or tile) or an *operand* (tile or ref); `…` marks any number of them,
`?` one that an attribute asks for. The effect says what running an op can touch: *pure* nothing,
*control* what its regions touch, *memory* memory at once, *async* memory later, *sync* other threads
and engines, *host* the process around the machine.
";

const LANES: &str = "
## Inside inline bodies

What a CUDA thread of an `inline_mgpu` body can do; from `rust/ir/src/lane/op_table.rs`. A value is a
short vector of elements per thread.
";

/// The text of `docs/op-reference.md`.
pub fn op_reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut family = "";
    for row in OPS {
        if row.family != family {
            family = row.family;
            push(&mut text, format_args!("\n## {family}\n"));
        }
        push(&mut text, format_args!("\n### `{}`\n\n", row.mnemonic));
        push(&mut text, format_args!("{}\n\n", sentence(row.doc)));
        push(&mut text, format_args!("- operands: {}\n", operands(row)));
        if !row.attributes.is_empty() {
            push(&mut text, format_args!("- attributes: {}\n", attributes(row)));
        }
        push(&mut text, format_args!("- effect: {}\n", format!("{:?}", row.effect).to_lowercase()));
    }
    text.push_str(LANES);
    let mut family = "";
    for row in LANE_OPS {
        if row.family != family {
            family = row.family;
            push(&mut text, format_args!("\n### {family}\n\n"));
        }
        let attributes: Vec<String> = row
            .attributes
            .iter()
            .map(|(name, ty)| format!("`{name}: {}`", ty.split_whitespace().collect::<String>()))
            .collect();
        let attributes = match attributes.as_slice() {
            [] => String::new(),
            some => format!(" ({})", some.join(", ")),
        };
        push(&mut text, format_args!("- `{}`{attributes}: {}\n", row.mnemonic, sentence(row.doc)));
    }
    text
}

fn push(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part).expect("a string takes everything");
}

/// The lines of a doc comment as one line, without links into the code.
fn sentence(doc: &str) -> String {
    let line = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("[`", "`").replace("`]", "`")
}

fn operands(row: &OpInfo) -> String {
    let named = row.operands.iter().map(|operand| {
        let kind = match operand.kind {
            OperandKind::Scalar => "scalar",
            OperandKind::Tile => "tile",
            OperandKind::Value => "value",
            OperandKind::Reference => "ref",
            OperandKind::Operand => "operand",
            OperandKind::Any => "any",
        };
        let mark = match operand.count {
            Count::One => "",
            Count::Optional => "?",
            Count::Many => "…",
        };
        format!("`{}`: {kind}{mark}", operand.name)
    });
    or_none(&named.collect::<Vec<_>>())
}

fn attributes(row: &OpInfo) -> String {
    let named = row.attributes.iter().map(|attribute| {
        let ty: String = attribute.ty.split_whitespace().collect();
        format!("`{}: {ty}`", attribute.name)
    });
    or_none(&named.collect::<Vec<_>>())
}

fn or_none(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
