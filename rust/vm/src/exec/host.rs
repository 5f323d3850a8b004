//! Ops that leave the machine.

use crate::code::Operand;
use crate::host::{HostArray, HostError};
use crate::machine::{Ctx, Flow, Result};
use crate::observer::Observer;
use crate::trap::TrapKind;
use pallas_rs_core::{self as core, Class, DType};
use std::fmt::Write;

impl<O: Observer> Ctx<'_, O> {
    fn host_array(&self, operand: Operand) -> HostArray {
        let (dtype, shape) = (operand.dtype(), self.shape(operand).to_vec());
        let mut data = vec![0; shape.iter().product::<usize>() * dtype.size()];
        self.write_out(operand, &mut data);
        HostArray { dtype, shape, data }
    }

    fn host_arrays(&self, operands: &[Operand]) -> Vec<HostArray> {
        operands.iter().map(|&o| self.host_array(o)).collect()
    }

    /// Takes over what the host returned.
    fn accept(&mut self, call: &str, arrays: Vec<HostArray>, results: &[Operand]) -> Result {
        let fits = arrays.len() == results.len()
            && arrays.iter().zip(results).all(|(array, &result)| {
                let bytes = self.shape(result).iter().product::<usize>() * result.dtype().size();
                array.dtype == result.dtype() && array.data.len() == bytes
            });
        if !fits {
            let message = "it returned arrays of other shapes or types than announced".to_owned();
            return Err(TrapKind::Host { call: call.to_owned(), message }.into());
        }
        for (array, &result) in arrays.iter().zip(results) {
            self.produce(result, |_, out| out.copy_from_slice(&array.data));
        }
        Ok(Flow::Next)
    }

    pub(super) fn xla_call(
        &mut self,
        name: &str,
        blob: usize,
        args: &[Operand],
        results: &[Operand],
    ) -> Result {
        let call = self.call;
        self.worker.stats.count_fallback(name);
        let arrays =
            call.host.xla_call(name, &call.code.program.blobs[blob], &self.host_arrays(args));
        let arrays = arrays
            .map_err(|HostError(message)| TrapKind::Host { call: name.to_owned(), message })?;
        self.accept(name, arrays, results)
    }

    pub(super) fn print(&mut self, format: &str, args: &[Operand]) -> Result {
        let arrays = self.host_arrays(args);
        let printed = self.call.host.print(&self.prefix(), format, &arrays);
        printed
            .map_err(|HostError(message)| TrapKind::Host { call: "print".to_owned(), message })?;
        Ok(Flow::Next)
    }

    pub(super) fn callback(&mut self, id: u64, args: &[Operand], results: &[Operand]) -> Result {
        let arrays = self.call.host.callback(id, &self.host_arrays(args));
        let arrays = arrays.map_err(|HostError(message)| TrapKind::Host {
            call: "callback".to_owned(),
            message,
        })?;
        self.accept("callback", arrays, results)
    }

    pub(super) fn check(&mut self, message: &str, ok: Operand, args: &[Operand]) -> Result {
        if self.scalar(ok) != 0 {
            return Ok(Flow::Next);
        }
        let args: Vec<String> = args.iter().map(|&o| self.display(o)).collect();
        Err(TrapKind::Check { message: substitute(message, &args) }.into())
    }

    /// Which grid point and thread speaks.
    fn prefix(&self) -> String {
        let who = self.who();
        let mut prefix = String::new();
        let joined =
            |numbers: &mut dyn Iterator<Item = String>| numbers.collect::<Vec<_>>().join(", ");
        if !who.point.is_empty() {
            let _ = write!(prefix, "({})", joined(&mut who.point.iter().map(ToString::to_string)));
        }
        if !who.block.is_empty() {
            let _ = write!(
                prefix,
                " block ({})",
                joined(&mut who.block.iter().map(ToString::to_string))
            );
        }
        if let Some(thread) = who.thread {
            let _ = write!(prefix, " thread {thread}");
        }
        let prefix = prefix.trim_start();
        if prefix.is_empty() { String::new() } else { format!("[{prefix}] ") }
    }

    /// A value, for people.
    fn display(&self, operand: Operand) -> String {
        let dtype = operand.dtype();
        match (self.elements(operand), operand) {
            (core::Operand::Splat(bits), Operand::Scalar { .. }) => number(dtype, bits),
            (core::Operand::Splat(bits), _) => format!("[{}, …]", number(dtype, bits)),
            (core::Operand::Slice(bytes), _) if dtype.fits_scalar() => {
                const SHOWN: usize = 8;
                let len = bytes.len() / dtype.size();
                let mut shown: Vec<String> = (0..len.min(SHOWN))
                    .map(|i| number(dtype, core::load_scalar(dtype.size(), bytes, i)))
                    .collect();
                if len > SHOWN {
                    shown.push("…".to_owned());
                }
                format!("[{}]", shown.join(", "))
            }
            (core::Operand::Slice(_), _) => format!("[{dtype}…]"),
        }
    }
}

fn number(dtype: DType, bits: u64) -> String {
    match dtype.class() {
        Class::Bool => if bits == 0 { "False" } else { "True" }.to_owned(),
        Class::Signed => super::access::as_integer(dtype, bits).to_string(),
        Class::Unsigned | Class::Complex => bits.to_string(),
        Class::Float => f64::from_bits(core::convert_scalar(dtype, DType::F64, bits)).to_string(),
    }
}

/// Puts arguments into the fields of a Python format string; their format is left aside.
fn substitute(format: &str, args: &[String]) -> String {
    let mut out = String::with_capacity(format.len());
    let mut next = 0;
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(doubled) = rest.strip_prefix(brace) {
            out.push_str(brace);
            rest = doubled;
        } else if let (true, Some(end)) = (brace == "{", rest.find('}')) {
            let name = rest[..end].split([':', '!', '.', '[']).next().unwrap_or_default();
            let index = name.parse().unwrap_or_else(|_| {
                next += 1;
                next - 1
            });
            out.push_str(args.get(index).map_or("?", String::as_str));
            rest = &rest[end + 1..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_format_strings() {
        let args = ["1".to_owned(), "2.5".to_owned()];
        assert_eq!(substitute("a {} b {:.3f} {{x}}", &args), "a 1 b 2.5 {x}");
        assert_eq!(substitute("{1} {0} {name}", &args), "2.5 1 1");
        assert_eq!(substitute("no fields } {", &args), "no fields  ");
    }

    #[test]
    fn numbers() {
        assert_eq!(number(DType::I8, 0xff), "-1");
        assert_eq!(number(DType::F32, f32::to_bits(1.5).into()), "1.5");
        assert_eq!(number(DType::Bool, 1), "True");
    }
}
