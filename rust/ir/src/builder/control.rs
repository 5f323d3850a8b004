//! Loops, branches and the host.

use super::Builder;
use crate::op::Op;
use crate::program::Value;
use crate::types::Type;
use pallas_rs_core::DType;

impl Builder {
    /// Counts from `lo` to `hi`; `body` gets the counter and the carry, and returns the next carry.
    pub fn for_loop(
        &mut self,
        lo: Value,
        hi: Value,
        init: &[Value],
        body: impl FnOnce(&mut Builder, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let carry = self.types(init);
        let params = [&[self.ty(lo).clone()], &carry[..]].concat();
        let region = self.region(params, |b, params| body(b, params[0], &params[1..]));
        self.push_with_regions(Op::ForLoop {}, &[&[lo, hi], init].concat(), carry, vec![region])
    }

    /// Counts from 0 to a constant without a carry.
    pub fn repeat(&mut self, count: i32, body: impl FnOnce(&mut Builder, Value)) {
        let (lo, hi) = (self.int(0), self.int(count));
        self.for_loop(lo, hi, &[], |b, i, _| {
            body(b, i);
            Vec::new()
        });
    }

    /// Runs `body` while `condition` holds.
    pub fn while_loop(
        &mut self,
        init: &[Value],
        condition: impl FnOnce(&mut Builder, &[Value]) -> Value,
        body: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let carry = self.types(init);
        let condition = self.region(carry.clone(), |b, params| vec![condition(b, params)]);
        let body = self.region(carry.clone(), body);
        self.push_with_regions(Op::WhileLoop {}, init, carry, vec![condition, body])
    }

    /// One of `count` branches; `branch` is called once for each.
    pub fn switch(
        &mut self,
        index: Value,
        count: usize,
        mut branch: impl FnMut(&mut Builder, usize) -> Vec<Value>,
    ) -> Vec<Value> {
        let regions: Vec<_> =
            (0..count).map(|i| self.region(Vec::new(), |b, _| branch(b, i))).collect();
        let results = self.types(&regions[0].yields);
        self.push_with_regions(Op::Switch {}, &[index], results, regions)
    }

    /// Runs `then` where a boolean scalar holds.
    pub fn when(&mut self, condition: Value, mut then: impl FnMut(&mut Builder)) {
        self.switch(condition, 2, |b, branch| {
            if branch == 1 {
                then(b);
            }
            Vec::new()
        });
    }

    /// Runs `body` in each warp of the warpgroup.
    pub fn warps(&mut self, body: impl FnOnce(&mut Builder, Value)) {
        let region = self.region(vec![Type::Scalar(DType::I32)], |b, params| {
            body(b, params[0]);
            Vec::new()
        });
        self.push_with_regions(Op::Warps {}, &[], Vec::new(), vec![region]);
    }

    /// Prints.
    pub fn print(&mut self, format: &str, args: &[Value]) {
        self.push_none(Op::Print { format: format.to_owned() }, args);
    }

    /// Fails where `ok` is false.
    pub fn check(&mut self, ok: Value, message: &str, args: &[Value]) {
        self.push_none(Op::Check { message: message.to_owned() }, &[&[ok], args].concat());
    }

    /// Runs a `StableHLO` module.
    pub fn xla_call(
        &mut self,
        name: &str,
        module: Vec<u8>,
        args: &[Value],
        results: Vec<Type>,
    ) -> Vec<Value> {
        let blob = self.blob(module);
        self.push(Op::XlaCall { name: name.to_owned(), blob }, args, results)
    }
}
