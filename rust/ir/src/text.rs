//! The text form of a program (`.plir`), for people and tests; [`crate::parse`] reads it back.
//!
//! ```text
//! kernel "scale"
//! grid [4]
//! threads 1
//! concurrent
//! arg %0 "x": f32[8,128] = operand 0
//! arg %1 "o": f32[8,128] = result 0
//! body {
//!   %2: i32 = program_id(axis:0) @0
//!   %3: ref<gmem, f32[128]> = ref_slice(dims:[index(dynamic),slice(start:static(0),size:128,stride:1)]) %0, %2 @1
//!   %4: f32[128] = load %3 @1
//! }
//! @0 = "k.py":3 in "scale"
//! @1 = "k.py":4 in "scale"
//! ```
//!
//! An instruction is results, op with attributes (RON, left away when there are none), operands,
//! regions, span. A region lists its parameters between bars. Options are JSON and list only what
//! differs from the default. A comment runs from `;` to the end of the line.

use crate::options::Options;
use crate::program::{Binding, GridDim, Inst, Program, Region, Value};
use crate::types::Type;
use std::collections::BTreeSet;
use std::fmt::{self, Display, Write};

impl Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer { program: self, out: f };
        printer.header()?;
        printer.out.write_str("body {\n")?;
        printer.region(&self.body, 1)?;
        printer.out.write_str("}\n")?;
        printer.tables()
    }
}

struct Printer<'a, 'f> {
    program: &'a Program,
    out: &'a mut fmt::Formatter<'f>,
}

impl Printer<'_, '_> {
    fn header(&mut self) -> fmt::Result {
        let p = self.program;
        writeln!(self.out, "kernel {}", Quoted(&p.name))?;
        let grid = p.grid.iter().map(|dim| match dim {
            GridDim::Static(size) => size.to_string(),
            GridDim::Operand(operand) => format!("operand {operand}"),
        });
        write!(self.out, "grid [{}]", join(grid))?;
        self.names(&p.grid_names)?;
        if !p.cluster.is_empty() {
            write!(self.out, "cluster [{}]", join(&p.cluster))?;
            self.names(&p.cluster_names)?;
        }
        writeln!(self.out, "threads {}", p.num_threads)?;
        self.out.write_str(if p.in_order { "in_order" } else { "concurrent" })?;
        if !p.sequential.is_empty() {
            write!(self.out, " sequential [{}]", join(&p.sequential))?;
        }
        self.out.write_str("\n")?;
        if p.options != Options::default() {
            writeln!(self.out, "options {}", changed_options(&p.options))?;
        }
        for (param, arg) in p.body.params.iter().zip(&p.args) {
            let ty = Type::Tile(arg.dtype, arg.shape.clone());
            write!(self.out, "arg {param} {}: {ty} = ", Quoted(&arg.name))?;
            match arg.binding {
                Binding::Operand(operand) => write!(self.out, "operand {operand}"),
                Binding::Result(result) => write!(self.out, "result {result}"),
                Binding::Aliased { operand, result } => {
                    write!(self.out, "operand {operand} result {result}")
                }
                Binding::Zeroed => self.out.write_str("zeroed"),
            }?;
            self.out.write_str(if arg.scratch { " scratch" } else { "" })?;
            self.out.write_str(if arg.by_value { " by_value" } else { "" })?;
            writeln!(self.out, "{}", if arg.semaphores { " semaphores" } else { "" })?;
        }
        Ok(())
    }

    fn names(&mut self, names: &[String]) -> fmt::Result {
        if !names.is_empty() {
            write!(self.out, " names [{}]", join(names.iter().map(|name| Quoted(name))))?;
        }
        self.out.write_str("\n")
    }

    /// The parameters are printed by whoever opens the brace.
    fn region(&mut self, region: &Region, depth: usize) -> fmt::Result {
        for inst in &region.insts {
            self.inst(inst, depth)?;
        }
        if !region.yields.is_empty() {
            self.indent(depth)?;
            writeln!(self.out, "yield {}", join(&region.yields))?;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &Inst, depth: usize) -> fmt::Result {
        self.indent(depth)?;
        if !inst.results.is_empty() {
            write!(self.out, "{} = ", self.typed(&inst.results))?;
        }
        let op = ron::to_string(&inst.op).map_err(|_| fmt::Error)?;
        self.out.write_str(op.strip_suffix("()").unwrap_or(&op))?;
        if !inst.operands.is_empty() {
            write!(self.out, " {}", join(&inst.operands))?;
        }
        for region in &inst.regions {
            self.out.write_str(" {")?;
            if !region.params.is_empty() {
                write!(self.out, " |{}|", self.typed(&region.params))?;
            }
            self.out.write_str("\n")?;
            self.region(region, depth + 1)?;
            self.indent(depth)?;
            self.out.write_str("}")?;
        }
        writeln!(self.out, " @{}", inst.span.0)
    }

    fn tables(&mut self) -> fmt::Result {
        for value in self.undefined() {
            writeln!(self.out, "unused {}", self.typed(&[value]))?;
        }
        for (index, span) in self.program.spans.iter().enumerate() {
            let (file, function) = (Quoted(&span.file), Quoted(&span.function));
            write!(self.out, "@{index} = {file}:{} in {function}", span.line)?;
            if let Some(via) = &span.via {
                write!(self.out, " via {}", Quoted(via))?;
            }
            self.out.write_str("\n")?;
        }
        for (index, blob) in self.program.blobs.iter().enumerate() {
            write!(self.out, "blob {index} = \"")?;
            blob.iter().try_for_each(|byte| write!(self.out, "{byte:02x}"))?;
            self.out.write_str("\"\n")?;
        }
        for (index, body) in self.program.lane_bodies.iter().enumerate() {
            writeln!(
                self.out,
                "lanes {index} = {}",
                ron::to_string(body).map_err(|_| fmt::Error)?
            )?;
        }
        Ok(())
    }

    fn indent(&mut self, depth: usize) -> fmt::Result {
        (0..depth).try_for_each(|_| self.out.write_str("  "))
    }

    /// A text form must also serve to look at a program that does not verify.
    fn typed(&self, values: &[Value]) -> String {
        join(values.iter().map(|value| match self.program.values.get(value.0 as usize) {
            Some(ty) => format!("{value}: {ty}"),
            None => format!("{value}: ?"),
        }))
    }

    fn undefined(&self) -> Vec<Value> {
        fn collect(region: &Region, defined: &mut BTreeSet<Value>) {
            defined.extend(&region.params);
            for inst in &region.insts {
                defined.extend(&inst.results);
                inst.regions.iter().for_each(|inner| collect(inner, defined));
            }
        }
        let mut defined = BTreeSet::new();
        collect(&self.program.body, &mut defined);
        let all = (0..self.program.values.len() as u32).map(Value);
        all.filter(|value| !defined.contains(value)).collect()
    }
}

/// Quoted as JSON quotes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

fn join(items: impl IntoIterator<Item = impl Display>) -> String {
    let mut joined = String::new();
    for (i, item) in items.into_iter().enumerate() {
        let separator = if i > 0 { ", " } else { "" };
        write!(joined, "{separator}{item}").expect("a string takes everything");
    }
    joined
}

fn changed_options(options: &Options) -> serde_json::Value {
    let fields = |options: &Options| match serde_json::to_value(options) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let default = fields(&Options::default());
    let mut changed = fields(options);
    changed.retain(|name, value| default.get(name) != Some(value));
    changed.into()
}
