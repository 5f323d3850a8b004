//! Builds small programs by hand, for tests and benchmarks of the machine.
//!
//! Result types are inferred; [`Builder::finish`] verifies, so that a test cannot run what the
//! lowering could not have made. Misuse panics: a builder is only ever fed by a test's author.
//!
//! ```
//! use pallas_rs_ir::builder::Builder;
//! use pallas_rs_core::DType;
//!
//! let mut b = Builder::new("double");
//! let x = b.input("x", DType::F32, &[8]);
//! let o = b.output("o", DType::F32, &[8]);
//! let v = b.load(x);
//! let sum = b.add(v, v);
//! b.store(o, sum);
//! let program = b.finish();
//! assert_eq!(program.body.insts.len(), 3);
//! ```

mod control;
mod memory;
mod pure;

pub use memory::{Dim, accumulator, barrier, cluster_barrier, semaphore, smem};

use crate::op::Op;
use crate::options::Options;
use crate::program::{Arg, Binding, GridDim, Inst, Program, Region, Span, SpanId, Value};
use crate::types::{RefType, Shape, Type};
use crate::verify::verify;
use pallas_rs_core::DType;

/// A program under construction.
#[derive(Debug)]
pub struct Builder {
    program: Program,
    /// Regions being filled, the body first.
    open: Vec<Region>,
    span: SpanId,
    operands: usize,
    results: usize,
}

impl Builder {
    /// A kernel of one block with one thread.
    pub fn new(name: &str) -> Builder {
        let span =
            Span { file: "kernel.py".to_owned(), line: 0, function: name.to_owned(), via: None };
        Builder {
            program: Program {
                name: name.to_owned(),
                grid: Vec::new(),
                grid_names: Vec::new(),
                in_order: false,
                sequential: Vec::new(),
                cluster: Vec::new(),
                cluster_names: Vec::new(),
                num_threads: 1,
                args: Vec::new(),
                body: Region::default(),
                values: Vec::new(),
                spans: vec![span],
                blobs: Vec::new(),
                lane_bodies: Vec::new(),
                options: Options::default(),
            },
            open: vec![Region::default()],
            span: SpanId(0),
            operands: 0,
            results: 0,
        }
    }

    /// Sets the grid.
    pub fn grid(&mut self, dims: &[u64]) -> &mut Self {
        self.program.grid = dims.iter().copied().map(GridDim::Static).collect();
        self
    }

    /// Appends a grid dimension whose bound is the call's next operand. Bounds precede arguments.
    pub fn dynamic_grid(&mut self) -> &mut Self {
        assert!(self.program.args.is_empty(), "grid bounds are the call's first operands");
        self.program.grid.push(GridDim::Operand(self.operands));
        self.operands += 1;
        self
    }

    /// Runs grid points in row-major order.
    pub fn in_order(&mut self) -> &mut Self {
        self.program.in_order = true;
        self
    }

    /// Sets the cluster's shape.
    pub fn cluster(&mut self, dims: &[usize]) -> &mut Self {
        self.program.cluster = dims.to_vec();
        self
    }

    /// Sets the number of threads of a block.
    pub fn threads(&mut self, count: usize) -> &mut Self {
        self.program.num_threads = count;
        self
    }

    /// Options of the run.
    pub fn options(&mut self) -> &mut Options {
        &mut self.program.options
    }

    /// Ops added from here on come from this line of `kernel.py`.
    pub fn at(&mut self, line: u32) -> &mut Self {
        let span = Span { line, ..self.program.spans[0].clone() };
        let known = self.program.spans.iter().position(|other| *other == span);
        let index = known.unwrap_or_else(|| {
            self.program.spans.push(span);
            self.program.spans.len() - 1
        });
        self.span = SpanId(index as u32);
        self
    }

    /// An argument that the kernel reads: a ref to GMEM.
    pub fn input(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Value {
        let binding = Binding::Operand(self.next_operand());
        self.arg(name, dtype, shape, binding, false)
    }

    /// An argument that the kernel writes: a ref to GMEM.
    pub fn output(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Value {
        let binding = Binding::Result(self.next_result());
        self.arg(name, dtype, shape, binding, false)
    }

    /// A result that starts with the contents of an operand and shares its memory.
    pub fn in_out(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Value {
        let binding = Binding::Aliased { operand: self.next_operand(), result: self.next_result() };
        self.arg(name, dtype, shape, binding, false)
    }

    /// A rank-0 argument passed by value.
    pub fn scalar_input(&mut self, name: &str, dtype: DType) -> Value {
        let binding = Binding::Operand(self.next_operand());
        self.arg(name, dtype, &[], binding, true)
    }

    /// An argument with any binding.
    pub fn arg(
        &mut self,
        name: &str,
        dtype: DType,
        shape: &[usize],
        binding: Binding,
        by_value: bool,
    ) -> Value {
        let (name, shape) = (name.to_owned(), shape.to_vec());
        self.push_arg(Arg {
            name,
            dtype,
            shape,
            binding,
            by_value,
            semaphores: false,
            scratch: false,
        })
    }

    /// Semaphores of the whole grid, zero at first.
    pub fn semaphores(&mut self, name: &str, shape: &[usize]) -> Value {
        let (name, shape) = (name.to_owned(), shape.to_vec());
        let (dtype, binding) = (DType::I32, Binding::Zeroed);
        self.push_arg(Arg {
            name,
            dtype,
            shape,
            binding,
            by_value: false,
            semaphores: true,
            scratch: false,
        })
    }

    fn push_arg(&mut self, arg: Arg) -> Value {
        let value = self.fresh(arg.param_type());
        self.open[0].params.push(value);
        self.program.args.push(arg);
        value
    }

    /// Adds a byte string; ops refer to it by the index returned.
    pub fn blob(&mut self, bytes: Vec<u8>) -> usize {
        self.program.blobs.push(bytes);
        self.program.blobs.len() - 1
    }

    /// The program, verified.
    ///
    /// # Panics
    /// When it does not verify.
    pub fn finish(self) -> Program {
        let program = self.finish_unverified();
        if let Err(error) = verify(&program) {
            panic!("{error}");
        }
        program
    }

    /// The program as it stands: for tests of the verifier.
    pub fn finish_unverified(mut self) -> Program {
        self.program.body = self.open.pop().expect("the body is open until the end");
        assert!(self.open.is_empty(), "a region is still open");
        self.program
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.program.ty(value)
    }

    /// Any op, with the types of its results.
    pub fn push(&mut self, op: Op, operands: &[Value], results: Vec<Type>) -> Vec<Value> {
        self.push_with_regions(op, operands, results, Vec::new())
    }

    /// An op with one result.
    pub fn push_one(&mut self, op: Op, operands: &[Value], result: Type) -> Value {
        self.push(op, operands, vec![result])[0]
    }

    /// An op without results.
    pub fn push_none(&mut self, op: Op, operands: &[Value]) {
        self.push(op, operands, Vec::new());
    }

    pub(crate) fn push_with_regions(
        &mut self,
        op: Op,
        operands: &[Value],
        results: Vec<Type>,
        regions: Vec<Region>,
    ) -> Vec<Value> {
        let results: Vec<Value> = results.into_iter().map(|ty| self.fresh(ty)).collect();
        let inst = Inst {
            op,
            operands: operands.to_vec(),
            results: results.clone(),
            regions,
            span: self.span,
        };
        self.open.last_mut().expect("the body is open until the end").insts.push(inst);
        results
    }

    fn region(
        &mut self,
        params: Vec<Type>,
        fill: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Region {
        let params: Vec<Value> = params.into_iter().map(|ty| self.fresh(ty)).collect();
        self.open.push(Region { params: params.clone(), ..Region::default() });
        let span = self.span;
        let yields = fill(self, &params);
        self.span = span;
        let mut region = self.open.pop().expect("pushed above");
        region.yields = yields;
        region
    }

    fn fresh(&mut self, ty: Type) -> Value {
        self.program.values.push(ty);
        Value(self.program.values.len() as u32 - 1)
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|v| self.ty(*v).clone()).collect()
    }

    fn dtype(&self, value: Value) -> DType {
        match self.ty(value) {
            Type::Scalar(dtype) | Type::Tile(dtype, _) => *dtype,
            Type::Ref(r) => r.dtype().expect("a ref to numbers"),
        }
    }

    fn shape(&self, value: Value) -> Shape {
        self.ty(value).shape().to_vec()
    }

    fn ref_type(&self, value: Value) -> RefType {
        self.ty(value).as_ref().expect("a ref").clone()
    }

    fn next_operand(&mut self) -> usize {
        self.operands += 1;
        self.operands - 1
    }

    fn next_result(&mut self) -> usize {
        self.results += 1;
        self.results - 1
    }
}
