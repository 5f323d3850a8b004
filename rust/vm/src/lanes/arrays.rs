//! Arrays that come in and go out: tiles to registers and back.

use super::code::{Arg, LaneCode};
use super::run::{State, fault};
use crate::code::Operand;
use crate::machine::{Ctx, Result};
use crate::observer::Observer;
use crate::trap::LaneFault;
use pallas_rs_core as core;
use pallas_rs_ir::lane::{LaneArray, LaneLayout};

impl<O: Observer> Ctx<'_, O> {
    /// Spreads an operand over the registers of the threads.
    pub(super) fn lane_array(
        &self,
        array: &LaneArray,
        operand: Operand,
        params: &mut impl Iterator<Item = Arg>,
        state: &mut State,
    ) {
        let size = array.dtype.size();
        let elements = self.elements(operand);
        for register in 0..array.registers() {
            let arg = params.next().expect("the verifier counted the registers");
            let mut out = state.take(arg);
            match (elements, &array.layout) {
                (core::Operand::Splat(bits), _) => core::fill(size, bits, &mut out),
                (core::Operand::Slice(tile), None) => {
                    core::fill(size, core::load_scalar(size, tile, 0), &mut out);
                }
                (core::Operand::Slice(tile), Some(layout)) => match size {
                    1 => gather::<1>(layout, register, tile, &mut out),
                    2 => gather::<2>(layout, register, tile, &mut out),
                    4 => gather::<4>(layout, register, tile, &mut out),
                    _ => gather::<8>(layout, register, tile, &mut out),
                },
            }
            state.put(arg, out);
        }
    }

    /// Collects what the body yields.
    pub(super) fn lane_results(
        &mut self,
        code: &LaneCode,
        state: &State,
        outs: &[Operand],
    ) -> Result<()> {
        let mut yields = code.yields.iter().copied();
        for (array, &result) in code.body.results.iter().zip(outs) {
            let args: Vec<Arg> = yields.by_ref().take(array.registers()).collect();
            match &array.layout {
                None => {
                    let value = state.read(code, args[0]);
                    let bits = value.element(0);
                    if (1..code.lanes).any(|lane| value.element(lane) != bits) {
                        return Err(fault(LaneFault::NotUniform));
                    }
                    self.set_splat(result, bits);
                }
                Some(layout) => self.lane_result(code, state, array, layout, &args, result)?,
            }
        }
        Ok(())
    }

    fn lane_result(
        &mut self,
        code: &LaneCode,
        state: &State,
        array: &LaneArray,
        layout: &LaneLayout,
        args: &[Arg],
        result: Operand,
    ) -> Result<()> {
        let size = array.dtype.size();
        let mut unequal = None;
        self.produce(result, |_, tile| {
            let held = args.len() * code.lanes * layout.vector as usize;
            let replicated = held * size > tile.len();
            for (register, &arg) in args.iter().enumerate() {
                let value = state.read(code, arg).dense(code.lanes);
                match size {
                    1 => scatter::<1>(layout, register, &value, tile),
                    2 => scatter::<2>(layout, register, &value, tile),
                    4 => scatter::<4>(layout, register, &value, tile),
                    _ => scatter::<8>(layout, register, &value, tile),
                }
            }
            // Threads that hold the same element: the last one has won above, the others must agree.
            if replicated {
                for (register, &arg) in args.iter().enumerate() {
                    let value = state.read(code, arg).dense(code.lanes);
                    unequal = unequal.or(differing(layout, register, size, &value, tile));
                }
            }
        });
        match unequal {
            Some((thread, element)) => {
                let shape = array.shape.clone();
                Err(fault(LaneFault::ReplicasDiffer { thread, element, shape }))
            }
            None => Ok(()),
        }
    }
}

fn gather<const SIZE: usize>(layout: &LaneLayout, register: usize, tile: &[u8], out: &mut [u8]) {
    let tile = tile.as_chunks::<SIZE>().0;
    let out = out.as_chunks_mut::<SIZE>().0;
    let first = layout.registers[register] as usize;
    let (vector, step) = (layout.vector as usize, layout.step as usize);
    for (out, &thread) in out.chunks_exact_mut(vector).zip(&layout.threads) {
        let start = first + thread as usize;
        if step == 1 {
            out.copy_from_slice(&tile[start..start + vector]);
        } else {
            for (v, out) in out.iter_mut().enumerate() {
                *out = tile[start + v * step];
            }
        }
    }
}

fn scatter<const SIZE: usize>(layout: &LaneLayout, register: usize, x: &[u8], tile: &mut [u8]) {
    let tile = tile.as_chunks_mut::<SIZE>().0;
    let x = x.as_chunks::<SIZE>().0;
    let first = layout.registers[register] as usize;
    let (vector, step) = (layout.vector as usize, layout.step as usize);
    for (x, &thread) in x.chunks_exact(vector).zip(&layout.threads) {
        let start = first + thread as usize;
        if step == 1 {
            tile[start..start + vector].copy_from_slice(x);
        } else {
            for (v, x) in x.iter().enumerate() {
                tile[start + v * step] = *x;
            }
        }
    }
}

/// The first thread whose component differs from the element that the tile has, with the element.
fn differing(
    layout: &LaneLayout,
    register: usize,
    size: usize,
    x: &[u8],
    tile: &[u8],
) -> Option<(u32, usize)> {
    let vector = layout.vector as usize;
    (x.chunks_exact(size).enumerate()).find_map(|(i, x)| {
        let (thread, v) = (i / vector, i % vector);
        let element = layout.registers[register] + layout.threads[thread] + v as u32 * layout.step;
        let element = element as usize;
        (tile[element * size..][..size] != *x).then_some((thread as u32, element))
    })
}
