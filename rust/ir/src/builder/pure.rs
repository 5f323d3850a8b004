//! Constants, arithmetic, shapes and the position in the grid.

use super::Builder;
use crate::op::Op;
use crate::program::Value;
use crate::types::Type;
use pallas_rs_core::{BinaryKind, CompareKind, CumulativeKind, DType, ReduceKind, UnaryKind};

impl Builder {
    /// An int32 scalar.
    pub fn int(&mut self, x: i32) -> Value {
        self.constant(DType::I32, &[], u64::from(x as u32))
    }

    /// A float32 scalar.
    pub fn float(&mut self, x: f32) -> Value {
        self.constant(DType::F32, &[], u64::from(x.to_bits()))
    }

    /// A boolean scalar.
    pub fn bool(&mut self, x: bool) -> Value {
        self.constant(DType::Bool, &[], u64::from(x))
    }

    /// A scalar, or a tile whose elements are all equal.
    pub fn constant(&mut self, dtype: DType, shape: &[usize], bits: u64) -> Value {
        self.push_one(Op::Constant { bits }, &[], Type::value(dtype, shape))
    }

    /// A constant tile from its dense elements.
    pub fn constant_array(&mut self, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Value {
        let blob = self.blob(bytes);
        self.push_one(Op::ConstantArray { blob }, &[], Type::Tile(dtype, shape.to_vec()))
    }

    /// A constant float32 tile.
    pub fn f32_tile(&mut self, shape: &[usize], elements: &[f32]) -> Value {
        let bytes = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.constant_array(DType::F32, shape, bytes)
    }

    /// Elementwise function of one operand.
    pub fn unary(&mut self, kind: UnaryKind, x: Value) -> Value {
        let ty = Type::value(kind.result(self.dtype(x)), self.shape(x));
        self.push_one(Op::Unary { kind }, &[x], ty)
    }

    /// Elementwise function of two operands; a scalar is broadcast to the other operand's shape.
    pub fn binary(&mut self, kind: BinaryKind, lhs: Value, rhs: Value) -> Value {
        let [lhs, rhs] = self.same_shape(lhs, rhs);
        let ty = self.ty(lhs).clone();
        self.push_one(Op::Binary { kind }, &[lhs, rhs], ty)
    }

    /// Sum.
    pub fn add(&mut self, lhs: Value, rhs: Value) -> Value {
        self.binary(BinaryKind::Add, lhs, rhs)
    }

    /// Difference.
    pub fn sub(&mut self, lhs: Value, rhs: Value) -> Value {
        self.binary(BinaryKind::Sub, lhs, rhs)
    }

    /// Product.
    pub fn mul(&mut self, lhs: Value, rhs: Value) -> Value {
        self.binary(BinaryKind::Mul, lhs, rhs)
    }

    /// Elementwise comparison; a scalar is broadcast to the other operand's shape.
    pub fn compare(&mut self, kind: CompareKind, lhs: Value, rhs: Value) -> Value {
        let [lhs, rhs] = self.same_shape(lhs, rhs);
        let ty = Type::value(DType::Bool, self.shape(lhs));
        self.push_one(Op::Compare { kind }, &[lhs, rhs], ty)
    }

    /// `cases[which]`.
    pub fn select_n(&mut self, which: Value, cases: &[Value]) -> Value {
        let ty = self.ty(cases[0]).clone();
        self.push_one(Op::SelectN {}, &[&[which], cases].concat(), ty)
    }

    /// `min(max(x, lo), hi)`.
    pub fn clamp(&mut self, lo: Value, x: Value, hi: Value) -> Value {
        let ty = self.ty(x).clone();
        self.push_one(Op::Clamp {}, &[lo, x, hi], ty)
    }

    /// Conversion.
    pub fn convert(&mut self, x: Value, dtype: DType) -> Value {
        let ty = Type::value(dtype, self.shape(x));
        self.push_one(Op::Convert {}, &[x], ty)
    }

    /// The same bits as another dtype.
    pub fn bitcast(&mut self, x: Value, dtype: DType) -> Value {
        let ty = Type::value(dtype, self.shape(x));
        self.push_one(Op::Bitcast {}, &[x], ty)
    }

    /// 0, 1, 2, … along one dimension.
    pub fn iota(&mut self, dtype: DType, shape: &[usize], dimension: usize) -> Value {
        self.push_one(Op::Iota { dimension }, &[], Type::Tile(dtype, shape.to_vec()))
    }

    /// Operand dimension `i` becomes result dimension `dims[i]`.
    pub fn broadcast(&mut self, x: Value, shape: &[usize], dims: &[usize]) -> Value {
        let ty = Type::value(self.dtype(x), shape);
        self.push_one(Op::Broadcast { dims: dims.to_vec() }, &[x], ty)
    }

    /// The same elements at another shape.
    pub fn reshape(&mut self, x: Value, shape: &[usize]) -> Value {
        let ty = Type::value(self.dtype(x), shape);
        self.push_one(Op::Reshape {}, &[x], ty)
    }

    /// Result dimension `i` is operand dimension `perm[i]`.
    pub fn transpose(&mut self, x: Value, perm: &[usize]) -> Value {
        let shape: Vec<usize> = perm.iter().map(|&i| self.shape(x)[i]).collect();
        let ty = Type::value(self.dtype(x), shape);
        self.push_one(Op::Transpose { perm: perm.to_vec() }, &[x], ty)
    }

    /// A window at constant starts with unit strides.
    pub fn slice(&mut self, x: Value, starts: &[usize], sizes: &[usize]) -> Value {
        let ty = Type::value(self.dtype(x), sizes);
        let op = Op::Slice { starts: starts.to_vec(), strides: vec![1; starts.len()] };
        self.push_one(op, &[x], ty)
    }

    /// Joins along one dimension.
    pub fn concatenate(&mut self, xs: &[Value], dimension: usize) -> Value {
        let mut shape = self.shape(xs[0]);
        shape[dimension] = xs.iter().map(|x| self.shape(*x)[dimension]).sum();
        let ty = Type::value(self.dtype(xs[0]), shape);
        self.push_one(Op::Concatenate { dimension }, xs, ty)
    }

    /// A reduction; the arg kinds give int32.
    pub fn reduce(&mut self, kind: ReduceKind, x: Value, axes: &[usize]) -> Value {
        let shape: Vec<usize> = (self.shape(x).into_iter().enumerate())
            .filter_map(|(i, dim)| (!axes.contains(&i)).then_some(dim))
            .collect();
        let dtype = match kind {
            ReduceKind::ArgMax | ReduceKind::ArgMin => DType::I32,
            _ => self.dtype(x),
        };
        let op = Op::Reduce { kind, axes: axes.to_vec() };
        self.push_one(op, &[x], Type::value(dtype, shape))
    }

    /// A running reduction.
    pub fn cumulative(&mut self, kind: CumulativeKind, x: Value, axis: usize) -> Value {
        let ty = self.ty(x).clone();
        self.push_one(Op::Cumulative { kind, axis, reverse: false }, &[x], ty)
    }

    /// The matrix product of `[m, k]` and `[k, n]`.
    pub fn dot(&mut self, lhs: Value, rhs: Value, dtype: DType) -> Value {
        let shape = [self.shape(lhs)[0], self.shape(rhs)[1]];
        let op = Op::DotGeneral {
            lhs_contract: vec![1],
            rhs_contract: vec![0],
            lhs_batch: Vec::new(),
            rhs_batch: Vec::new(),
            tf32: false,
        };
        self.push_one(op, &[lhs, rhs], Type::value(dtype, shape))
    }

    /// Index along a grid dimension.
    pub fn program_id(&mut self, axis: usize) -> Value {
        self.push_one(Op::ProgramId { axis }, &[], Type::Scalar(DType::I32))
    }

    /// Size of a grid dimension.
    pub fn num_programs(&mut self, axis: usize) -> Value {
        self.push_one(Op::NumPrograms { axis }, &[], Type::Scalar(DType::I32))
    }

    /// Index along a cluster dimension.
    pub fn cluster_index(&mut self, axis: usize) -> Value {
        self.push_one(Op::ClusterIndex { axis }, &[], Type::Scalar(DType::I32))
    }

    /// Index of this thread.
    pub fn thread_index(&mut self) -> Value {
        self.push_one(Op::ThreadIndex {}, &[], Type::Scalar(DType::I32))
    }

    fn same_shape(&mut self, lhs: Value, rhs: Value) -> [Value; 2] {
        let (left, right) = (self.shape(lhs), self.shape(rhs));
        match (left.is_empty(), right.is_empty()) {
            (true, false) => [self.broadcast(lhs, &right, &[]), rhs],
            (false, true) => [lhs, self.broadcast(rhs, &left, &[])],
            _ => [lhs, rhs],
        }
    }
}
