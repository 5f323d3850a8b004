//! Loads and stores of CUDA threads, byte by byte through a view's tiling and swizzle.

use super::code::{Arg, LaneCode, OpCode};
use super::pure::{self, extend, packed_bits};
use super::run::{State, fault};
use super::views::{PADDING, ViewMap};
use super::{Mask, WARP, lanes};
use crate::machine::{Ctx, Flow, Result};
use crate::memory::area::{Source, Target};
use crate::memory::{self, Base, RefDim, RefVal};
use crate::observer::{AccessKind, Observer, Proxy};
use crate::trap::{self, LaneFault, LaneRace};
use crate::units::{Store, Transfer, rmw};
use pallas_rs_core::{self as core, DType};
use pallas_rs_ir::LaneOp;
use pallas_rs_ir::lane::LaneType;
use rustc_hash::FxHashMap;

/// Who touched an element since the last barrier of all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Nobody,
    /// One thread.
    Lane(u8),
    /// Several threads of one warp; `met` if the warp has synchronised since.
    Warp {
        warp: u8,
        met: bool,
    },
    /// Threads of several warps.
    Many,
}

impl Who {
    /// Whether an access of `lane` is not ordered after these.
    fn conflicts(self, lane: usize) -> bool {
        match self {
            Who::Nobody => false,
            Who::Lane(other) => usize::from(other) != lane,
            Who::Warp { warp, met } => usize::from(warp) != lane / WARP || !met,
            Who::Many => true,
        }
    }

    fn and(self, lane: usize) -> Who {
        match self {
            Who::Nobody => Who::Lane(lane as u8),
            Who::Lane(other) if usize::from(other) == lane => self,
            Who::Lane(other) if usize::from(other) / WARP == lane / WARP => {
                Who::Warp { warp: (lane / WARP) as u8, met: false }
            }
            Who::Warp { warp, .. } if usize::from(warp) == lane / WARP => {
                Who::Warp { warp, met: false }
            }
            Who::Lane(_) | Who::Warp { .. } | Who::Many => Who::Many,
        }
    }

    fn lane(self) -> Option<u32> {
        match self {
            Who::Lane(lane) => Some(lane.into()),
            Who::Nobody | Who::Warp { .. } | Who::Many => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Touched {
    writer: Who,
    reader: Who,
}

/// What the CUDA threads of a machine thread did, by view and element.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    /// Since their last barrier.
    touched: FxHashMap<(u32, u32), Touched>,
    /// Since the machine's observer was last told: read (bit 0) or written (bit 1).
    untold: FxHashMap<(u32, u32), u8>,
}

impl Epoch {
    /// All threads have met.
    pub(super) fn restart(&mut self) {
        self.touched.clear();
    }

    /// The warps of these lanes have met, each by itself.
    pub(super) fn warps_met(&mut self, active: Mask) {
        let meets = |who: Who| match who {
            Who::Lane(lane) if active >> lane & 1 == 1 => {
                Who::Warp { warp: lane / WARP as u8, met: true }
            }
            Who::Warp { warp, .. } if active >> (u32::from(warp) * WARP as u32) & 1 == 1 => {
                Who::Warp { warp, met: true }
            }
            other => other,
        };
        self.touched.retain(|_, touched| {
            *touched = Touched { writer: meets(touched.writer), reader: meets(touched.reader) };
            true
        });
    }

    /// Notes an access. The thread it races with, if it does; a write of the bits that are there
    /// already races with nobody.
    fn note(&mut self, key: (u32, u32), lane: usize, write: bool, same: bool) -> Option<Who> {
        *self.untold.entry(key).or_default() |= 1 << u8::from(write);
        let nobody = Touched { writer: Who::Nobody, reader: Who::Nobody };
        let touched = self.touched.entry(key).or_insert(nobody);
        let race = match (write, same) {
            (true, true) => None,
            (true, false) => {
                [touched.writer, touched.reader].into_iter().find(|w| w.conflicts(lane))
            }
            (false, _) => Some(touched.writer).filter(|w| w.conflicts(lane)),
        };
        if write {
            touched.writer = if same { touched.writer.and(lane) } else { Who::Lane(lane as u8) };
        } else {
            touched.reader = touched.reader.and(lane);
        }
        race
    }
}

/// What the threads do at their pointers. `data` is what all lanes write.
#[derive(Clone, Copy)]
struct Access<'a> {
    bytes: usize,
    align: u32,
    kind: AccessKind,
    data: &'a [u8],
}

/// One thread's part of it.
#[derive(Clone, Copy)]
struct Span {
    view: usize,
    byte: i64,
    bytes: usize,
}

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn lane_memory(
        &mut self,
        code: &LaneCode,
        state: &mut State,
        op: &OpCode,
    ) -> Result<()> {
        let active = state.active;
        match &op.op {
            LaneOp::Load { align } => {
                let (result, ty) = (op.outs[0], op.outs[0].ty);
                let bytes = memory_bytes(ty);
                let mut out = state.take(result);
                if bytes == result.stride() {
                    self.read_lanes(code, state, op.ins[0], (bytes, *align), active, &mut out)?;
                } else {
                    let mut packed = vec![0; bytes * code.lanes];
                    self.read_lanes(code, state, op.ins[0], (bytes, *align), active, &mut packed)?;
                    unpack(&packed, ty, &mut out);
                }
                state.put(result, out);
            }
            LaneOp::Store { align } => {
                let ty = op.ins[1].ty;
                let bytes = memory_bytes(ty);
                let x = state.read(code, op.ins[1]).dense(code.lanes);
                let packed =
                    if bytes == op.ins[1].stride() { x.into_owned() } else { pack(&x, ty) };
                self.write_lanes(code, state, op.ins[0], (bytes, *align), active, &packed)?;
            }
            LaneOp::Atomic { kind } => {
                let ty = op.ins[1].ty;
                let size = ty.dtype.size();
                let mut old = vec![0; size * code.lanes];
                for lane in lanes(active) {
                    let one = 1 << lane;
                    let how = Access {
                        bytes: size,
                        align: size as u32,
                        kind: AccessKind::Atomic,
                        data: &[],
                    };
                    self.touch(code, state, op.ins[0], how, one, |c, view, at, _| {
                        c.load_bytes(view, at, &mut old[lane * size..][..size]);
                    })?;
                    let mut new = old.clone();
                    let x = state.read(code, op.ins[1]).dense(code.lanes).into_owned();
                    let place = lane * size..(lane + 1) * size;
                    let operand = core::Operand::Slice(&x[place.clone()]);
                    rmw::combine(*kind, ty.dtype, &mut new[place.clone()], operand);
                    self.touch(code, state, op.ins[0], how, one, |c, view, at, _| {
                        c.store_bytes(view, at, &new[place.clone()]);
                    })?;
                }
                if let Some(&result) = op.outs.first() {
                    state.put(result, old);
                }
            }
            _ => unreachable!("not a memory op"),
        }
        Ok(())
    }

    /// Reads `bytes` bytes at a pointer in each lane of `mask`.
    pub(super) fn read_lanes(
        &mut self,
        code: &LaneCode,
        state: &mut State,
        pointer: Arg,
        (bytes, align): (usize, u32),
        mask: Mask,
        out: &mut [u8],
    ) -> Result<()> {
        let how = Access { bytes, align, kind: AccessKind::Read, data: &[] };
        self.touch(code, state, pointer, how, mask, |c, view, at, lane| {
            c.load_bytes(view, at, &mut out[lane * bytes..][..bytes]);
        })
    }

    /// Writes `bytes` bytes at a pointer in each lane of `mask`.
    pub(super) fn write_lanes(
        &mut self,
        code: &LaneCode,
        state: &mut State,
        pointer: Arg,
        (bytes, align): (usize, u32),
        mask: Mask,
        x: &[u8],
    ) -> Result<()> {
        let how = Access { bytes, align, kind: AccessKind::Write, data: x };
        self.touch(code, state, pointer, how, mask, |c, view, at, lane| {
            c.store_bytes(view, at, &x[lane * bytes..][..bytes]);
        })
    }

    /// Calls `access` for each lane with its view and the elements there.
    #[allow(clippy::too_many_arguments, reason = "an access has that many properties")]
    fn touch(
        &mut self,
        code: &LaneCode,
        state: &mut State,
        pointer: Arg,
        how: Access<'_>,
        mask: Mask,
        mut access: impl FnMut(&mut Self, (&RefVal, &ViewMap), usize, usize),
    ) -> Result<()> {
        let Access { bytes, align, kind, data } = how;
        let views = std::mem::take(&mut state.views);
        let mut done = Ok(());
        for lane in lanes(mask) {
            let span = Span::new(state.read(code, pointer).element(lane), bytes);
            done = self.check_span(code, &views, span, align, lane, kind);
            if done.is_err() {
                break;
            }
            let map = &code.views[span.view];
            if O::WATCHES && kind != AccessKind::Atomic {
                let write = kind == AccessKind::Write;
                let data = data.get(lane * bytes..(lane + 1) * bytes).unwrap_or_default();
                self.note(code, state, (&views[span.view], map), span, lane, write, data)?;
            }
            if O::WATCHES && kind == AccessKind::Atomic {
                let mut elements = Vec::new();
                map.elements(span, |number| {
                    elements.extend(offset(&views[span.view], map, number))
                });
                self.observe_lane_elements(&views[span.view], &elements, map.dtype, kind)?;
            }
            access(self, (&views[span.view], map), span.byte as usize, lane);
        }
        state.views = views;
        done
    }

    fn observe_lane_elements(
        &mut self,
        view: &RefVal,
        elements: &[i64],
        dtype: DType,
        kind: AccessKind,
    ) -> Result<()> {
        for &offset in elements {
            let mut one = RefVal::whole(view.base, &[]);
            one.offset = offset;
            self.observe(&one, dtype.size(), kind, Proxy::Generic)?;
        }
        Ok(())
    }

    /// That an access stays within its view, and is aligned.
    fn check_span(
        &self,
        code: &LaneCode,
        views: &[RefVal],
        span: Span,
        align: u32,
        lane: usize,
        kind: AccessKind,
    ) -> Result<()> {
        let thread = self.lane_place(code).first + lane as u32;
        let Some(view) = views.get(span.view) else {
            return Err(fault(LaneFault::NoView { thread }));
        };
        let map = &code.views[span.view];
        let access =
            if kind == AccessKind::Read { trap::Access::Read } else { trap::Access::Write };
        let (byte, bytes) = (span.byte, span.bytes);
        if align > 1 && byte.rem_euclid(i64::from(align)) != 0 {
            let place = self.place(view);
            return Err(fault(LaneFault::Misaligned { access, place, thread, byte, align }));
        }
        let mut fits = byte >= 0;
        if fits {
            map.elements(span, |number| {
                fits &= number != PADDING && offset(view, map, number).is_some();
            });
        }
        if fits {
            return Ok(());
        }
        let place = self.place(view);
        Err(fault(LaneFault::Outside { access, place, thread, byte, bytes }))
    }

    #[allow(clippy::too_many_arguments, reason = "an access has that many properties")]
    fn note(
        &mut self,
        code: &LaneCode,
        state: &mut State,
        (view, map): (&RefVal, &ViewMap),
        span: Span,
        lane: usize,
        write: bool,
        data: &[u8],
    ) -> Result<()> {
        if span.byte < 0 {
            return Ok(());
        }
        let mut numbers = smallvec::SmallVec::<[u32; 16]>::new();
        map.elements(span, |number| numbers.push(number));
        let unit = (map.bits / 8).max(1);
        for (i, number) in numbers.into_iter().enumerate() {
            let Some(at) = offset(view, map, number) else { continue };
            let same = write && map.bits >= 8 && {
                let mut there = [0; 16];
                let there = &mut there[..unit];
                self.lane_source(view.base).read(unit, at, there);
                data.get(i * unit..(i + 1) * unit).is_some_and(|new| new == there)
            };
            // A store of what is there still counts against threads that store something else.
            let key = (span.view as u32, number);
            if let Some(other) = state.epoch.note(key, lane, write, same) {
                let first = self.lane_place(code).first;
                let race = LaneRace {
                    place: self.place(view),
                    element: number as usize,
                    shape: map.shape.clone(),
                    thread: first + lane as u32,
                    other: other.lane().map(|other| first + other),
                    write,
                    body: code.name.clone(),
                };
                return Err(fault(LaneFault::Race(race)));
            }
        }
        Ok(())
    }

    fn load_bytes(&self, (view, map): (&RefVal, &ViewMap), byte: usize, out: &mut [u8]) {
        let source = self.lane_source(view.base);
        if map.bits >= 8 {
            let unit = map.bits / 8;
            if byte.is_multiple_of(unit) && out.len().is_multiple_of(unit) {
                for (i, out) in out.chunks_exact_mut(unit).enumerate() {
                    source.read(unit, place(view, map, byte / unit + i), out);
                }
                return;
            }
            let mut element = [0; 16];
            for (i, out) in out.iter_mut().enumerate() {
                let element = &mut element[..unit];
                source.read(unit, place(view, map, (byte + i) / unit), element);
                *out = element[(byte + i) % unit];
            }
            return;
        }
        let per_byte = 8 / map.bits;
        for (i, out) in out.iter_mut().enumerate() {
            *out = 0;
            for k in 0..per_byte {
                let mut element = [0];
                source.read(1, place(view, map, (byte + i) * per_byte + k), &mut element);
                let low = element[0] & (0xff >> (8 - map.bits));
                *out |= low << (k * map.bits);
            }
        }
    }

    fn store_bytes(&mut self, (view, map): (&RefVal, &ViewMap), byte: usize, x: &[u8]) {
        if map.bits >= 8 {
            let unit = map.bits / 8;
            if byte.is_multiple_of(unit) && x.len().is_multiple_of(unit) {
                let mut target = self.lane_target(view.base);
                for (i, x) in x.chunks_exact(unit).enumerate() {
                    target.write(unit, place(view, map, byte / unit + i), x);
                }
                return;
            }
            let mut element = [0; 16];
            for (i, &x) in x.iter().enumerate() {
                let element = &mut element[..unit];
                let at = place(view, map, (byte + i) / unit);
                self.lane_source(view.base).read(unit, at, element);
                element[(byte + i) % unit] = x;
                self.lane_target(view.base).write(unit, at, element);
            }
            return;
        }
        let per_byte = 8 / map.bits;
        let mut target = self.lane_target(view.base);
        for (i, &x) in x.iter().enumerate() {
            for k in 0..per_byte {
                let low = u64::from(x >> (k * map.bits) & (0xff >> (8 - map.bits)));
                let element = [extend(map.dtype, low) as u8];
                target.write(1, place(view, map, (byte + i) * per_byte + k), &element);
            }
        }
    }

    fn lane_source(&self, base: Base) -> Source<'_> {
        match (base, self.storage(base)) {
            (Base::Global(arg), _) => self.call.gmem.source(arg),
            (_, Some(tile)) => self.worker.pool.whole(tile).into(),
            (_, None) => unreachable!("a ref does not outlive its scope"),
        }
    }

    fn lane_target(&mut self, base: Base) -> Target<'_> {
        match (base, self.storage(base)) {
            (Base::Global(arg), _) => self.call.gmem.target(arg),
            (_, Some(tile)) => self.worker.pool.whole_mut(tile).into(),
            (_, None) => unreachable!("a ref does not outlive its scope"),
        }
    }

    /// Tells the observer what the threads have read and written since it was last told, as boxes.
    pub(super) fn flush(&mut self, code: &LaneCode, state: &mut State) -> Result<()> {
        if !O::WATCHES || state.epoch.untold.is_empty() {
            return Ok(());
        }
        let untold = std::mem::take(&mut state.epoch.untold);
        for (number, map) in code.views.iter().enumerate() {
            for (bit, kind) in [(0, AccessKind::Read), (1, AccessKind::Write)] {
                let mut elements: Vec<u32> = (untold.iter())
                    .filter(|((view, _), how)| *view as usize == number && *how >> bit & 1 == 1)
                    .map(|((_, element), _)| *element)
                    .collect();
                elements.sort_unstable();
                let view = state.views[number].clone();
                for part in boxes(&elements, &view, map) {
                    self.observe(&part, map.dtype.size(), kind, Proxy::Generic)?;
                }
            }
        }
        Ok(())
    }

    /// Hands a TMA store to the engine, as a group of its own.
    pub(super) fn issue_copy(&mut self, from: &RefVal, to: &RefVal, dtype: DType) -> Result {
        self.drift()?;
        let spare = self.cluster.engines.spare.pop();
        if let Some(transfer) = Transfer::new(spare, from, to) {
            let ticket = self.cluster.engines.ticket();
            let store = Store { transfer, dtype, reduction: None, captured: None, ticket };
            if O::WATCHES {
                self.issue_store(&store)?;
            }
            self.thread.queues.stores.push(store);
        }
        self.commit_group().map(|_| Flow::Next)
    }
}

/// The window of a view that starts at an element of it, by row-major number, and has these strides;
/// what sticks out of the view does not exist.
pub(super) fn window(
    view: &RefVal,
    map: &ViewMap,
    first: u32,
    strides: &[i64],
    shape: &[usize],
) -> RefVal {
    let dense = map.inner_strides(map.shape.len());
    let mut rest = i64::from(first);
    let mut out = view.clone();
    out.dims.clear();
    let mut starts = Vec::new();
    for (d, &stride) in dense.iter().enumerate() {
        starts.push(rest / stride.max(1));
        rest %= stride.max(1);
        out.offset += starts[d] * view.dims[d].stride;
    }
    for (&stride, &n) in strides.iter().zip(shape) {
        let n = n as i64;
        let axis = dense.iter().rposition(|&s| s == stride).unwrap_or(dense.len() - 1);
        let left = (map.shape[axis] as i64 - starts[axis]).clamp(0, n);
        out.dims.push(RefDim { size: n, stride: view.dims[axis].stride, lo: 0, hi: left });
    }
    out
}

impl Span {
    fn new(pointer: u64, bytes: usize) -> Span {
        let (view, byte) = pure::resolve(pointer);
        Span { view, byte, bytes }
    }
}

impl ViewMap {
    /// Calls `f` with the number of each element that an access touches, `PADDING` past the end.
    fn elements(&self, span: Span, mut f: impl FnMut(u32)) {
        let first = span.byte as usize * 8 / self.bits;
        let end = ((span.byte as usize + span.bytes) * 8).div_ceil(self.bits);
        for physical in first..end {
            f(self.logical(physical).unwrap_or(PADDING));
        }
    }
}

/// Where an element of a view is in its allocation, if it exists.
fn offset(view: &RefVal, map: &ViewMap, number: u32) -> Option<i64> {
    if number == PADDING {
        return None;
    }
    if view.dense_len().is_some() {
        return Some(view.offset + i64::from(number));
    }
    let mut index = smallvec::SmallVec::<[i64; 6]>::from_elem(0, map.shape.len());
    let mut rest = i64::from(number);
    for (i, &n) in index.iter_mut().zip(&map.shape).rev() {
        *i = rest % n as i64;
        rest /= n as i64;
    }
    memory::element(view, &index)
}

/// The same, of a byte that was checked.
fn place(view: &RefVal, map: &ViewMap, physical: usize) -> i64 {
    let number = map.logical(physical).unwrap_or(PADDING);
    offset(view, map, number).expect("the access was checked")
}

/// Bytes of a thread's value in memory; a boolean takes a byte.
fn memory_bytes(ty: LaneType) -> usize {
    ty.dtype.packed_bits() * ty.len as usize / 8
}

/// Sub-byte elements, packed as in memory.
fn pack(x: &[u8], ty: LaneType) -> Vec<u8> {
    let bits = packed_bits(ty.dtype);
    let per_byte = 8 / bits;
    let low = 0xff >> (8 - bits);
    (x.chunks_exact(per_byte))
        .map(|x| x.iter().enumerate().fold(0, |byte, (i, &x)| byte | (x & low) << (i * bits)))
        .collect()
}

fn unpack(packed: &[u8], ty: LaneType, out: &mut [u8]) {
    let bits = packed_bits(ty.dtype);
    let low = 0xff >> (8 - bits);
    for (out, &byte) in out.chunks_exact_mut(8 / bits).zip(packed) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = extend(ty.dtype, u64::from(byte >> (i * bits) & low)) as u8;
        }
    }
}

/// A sorted list of elements as boxes: runs of a row, and equal runs of consecutive rows together.
fn boxes(elements: &[u32], view: &RefVal, map: &ViewMap) -> Vec<RefVal> {
    if elements.len() == map.len {
        return vec![view.clone()];
    }
    let row = map.shape.last().copied().unwrap_or(1).max(1) as u32;
    // (first row, rows, first column, columns)
    let mut found: Vec<(u32, u32, u32, u32)> = Vec::new();
    let mut open: FxHashMap<(u32, u32), usize> = FxHashMap::default();
    let mut i = 0;
    while i < elements.len() {
        let (r, first) = (elements[i] / row, elements[i] % row);
        let mut end = i + 1;
        while end < elements.len()
            && elements[end] == elements[end - 1] + 1
            && elements[end] / row == r
        {
            end += 1;
        }
        let columns = (end - i) as u32;
        match open.get(&(first, columns)).copied() {
            Some(k) if map.shape.len() == 2 && found[k].0 + found[k].1 == r => found[k].1 += 1,
            _ => {
                open.insert((first, columns), found.len());
                found.push((r, 1, first, columns));
            }
        }
        i = end;
    }
    (found.into_iter())
        .filter_map(|(r, rows, c, columns)| {
            let mut part = view.clone();
            part.offset = offset(view, map, r * row + c)?;
            part.escape = None;
            part.dims.clear();
            let full = |size: u32, stride| {
                let size = i64::from(size);
                RefDim { size, stride, lo: 0, hi: size }
            };
            if map.shape.len() == 2 {
                part.dims.push(full(rows, view.dims[0].stride));
            }
            if let Some(last) = view.dims.last() {
                part.dims.push(full(columns, last.stride));
            }
            Some(part)
        })
        .collect()
}
