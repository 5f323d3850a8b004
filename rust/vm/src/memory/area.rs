//! Bytes that a strided copy may touch, and the one strided copy.
//!
//! GMEM is shared with other workers, which may write neighbouring elements at the same time; so it
//! is never borrowed as a slice, and every access goes through the pointers here.
#![allow(unsafe_code, reason = "GMEM is raw memory that several workers write at once")]

use std::marker::PhantomData;

/// Bytes to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    ptr: *const u8,
    len: usize,
    life: PhantomData<&'a [u8]>,
}

/// Bytes to write.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    ptr: *mut u8,
    len: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Source { ptr: bytes.as_ptr(), len: bytes.len(), life: PhantomData }
    }
}

impl<'a> From<&'a mut [u8]> for Target<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Target { ptr: bytes.as_mut_ptr(), len: bytes.len(), life: PhantomData }
    }
}

impl<'a> Source<'a> {
    /// # Safety
    /// `len` bytes at `ptr` can be read for `'a`, and none that is read is written meanwhile by
    /// another OS thread.
    pub(crate) unsafe fn from_raw(ptr: *const u8, len: usize) -> Source<'a> {
        Source { ptr, len, life: PhantomData }
    }
}

impl<'a> Target<'a> {
    /// # Safety
    /// `len` bytes at `ptr` can be written for `'a`, and none that is written is accessed meanwhile
    /// by another OS thread.
    pub(crate) unsafe fn from_raw(ptr: *mut u8, len: usize) -> Target<'a> {
        Target { ptr, len, life: PhantomData }
    }
}

/// Panics unless `bytes` bytes from element `first` on lie within an area of `len` bytes; the byte
/// they start at.
#[inline]
pub(super) fn within(elem: usize, first: i64, bytes: usize, len: usize) -> usize {
    let start = (first as usize).wrapping_mul(elem);
    let inside = first >= 0 && start <= len && bytes <= len - start;
    assert!(inside, "a view reaches outside its allocation");
    start
}

impl Source<'_> {
    /// Reads elements of `elem` bytes from element `first` on.
    ///
    /// # Panics
    /// When they leave the area.
    #[inline]
    pub(crate) fn read(&self, elem: usize, first: i64, out: &mut [u8]) {
        let start = within(elem, first, out.len(), self.len);
        // SAFETY: `within` has shown that the bytes lie within the area.
        unsafe { std::ptr::copy(self.ptr.add(start), out.as_mut_ptr(), out.len()) };
    }
}

impl Target<'_> {
    /// Writes elements of `elem` bytes from element `first` on.
    ///
    /// # Panics
    /// When they leave the area.
    #[inline]
    pub(crate) fn write(&mut self, elem: usize, first: i64, bytes: &[u8]) {
        let start = within(elem, first, bytes.len(), self.len);
        // SAFETY: `within` has shown that the bytes lie within the area.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.ptr.add(start), bytes.len()) };
    }

    /// Sets `len` elements of `elem` bytes from element `first` on to the low bytes of `bits`.
    ///
    /// # Panics
    /// When they leave the area.
    pub(crate) fn fill(&mut self, elem: usize, bits: u64, first: i64, len: i64) {
        let start = within(elem, first, len as usize * elem, self.len);
        // SAFETY: `within` has shown that the bytes lie within the area.
        unsafe {
            let at = self.ptr.add(start);
            match elem {
                1 => fill_elements(at, len, (bits as u8).to_le_bytes()),
                2 => fill_elements(at, len, (bits as u16).to_le_bytes()),
                4 => fill_elements(at, len, (bits as u32).to_le_bytes()),
                8 => fill_elements(at, len, bits.to_le_bytes()),
                _ => unreachable!("a splat has at most eight bytes"),
            }
        }
    }
}

/// # Safety
/// `len` elements of `SIZE` bytes can be written from `at` on.
unsafe fn fill_elements<const SIZE: usize>(at: *mut u8, len: i64, element: [u8; SIZE]) {
    for i in 0..len as usize {
        // SAFETY: as the function's; an array of bytes has no alignment.
        unsafe { at.add(i * SIZE).cast::<[u8; SIZE]>().write(element) };
    }
}

/// One side of a strided copy, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps<'a> {
    pub(crate) offset: i64,
    pub(crate) strides: &'a [i64],
}

impl Steps<'_> {
    /// Panics unless every element of a box of this shape lies within `len` bytes.
    fn check(&self, shape: &[i64], elem: usize, len: usize) {
        let (mut first, mut last) = (self.offset, self.offset);
        for (&n, &stride) in shape.iter().zip(self.strides) {
            let reach = (n - 1) * stride;
            first += reach.min(0);
            last += reach.max(0);
        }
        let inside = first >= 0 && (last as usize + 1) * elem <= len;
        assert!(inside, "a view reaches outside its allocation");
    }
}

/// Copies a box of `shape` elements of `elem` bytes. Source and target may overlap only if the copy
/// is one contiguous run.
///
/// # Panics
/// When either side leaves its area.
pub(crate) fn copy(
    elem: usize,
    shape: &[i64],
    source: Source<'_>,
    from: Steps<'_>,
    target: Target<'_>,
    to: Steps<'_>,
) {
    assert!(shape.len() == from.strides.len() && shape.len() == to.strides.len());
    if shape.iter().any(|&n| n <= 0) {
        return;
    }
    from.check(shape, elem, source.len);
    to.check(shape, elem, target.len);
    // Trailing dimensions that are contiguous on both sides become one run.
    let mut run = 1;
    let mut rank = shape.len();
    while rank > 0 {
        let d = rank - 1;
        if shape[d] != 1 && (from.strides[d] != run || to.strides[d] != run) {
            break;
        }
        run *= shape[d];
        rank = d;
    }
    let size = elem as i64;
    // SAFETY: `check` has shown that every element of the box lies within both areas.
    let (src, dst) = unsafe {
        (
            source.ptr.offset((from.offset * size) as isize),
            target.ptr.offset((to.offset * size) as isize),
        )
    };
    let plan = Plan { shape, from: from.strides, to: to.strides, elem };
    // SAFETY: as above; `copy_box` touches exactly the elements of the box.
    unsafe { plan.copy_box(rank, run, src, dst) }
}

struct Plan<'a> {
    shape: &'a [i64],
    from: &'a [i64],
    to: &'a [i64],
    elem: usize,
}

impl Plan<'_> {
    /// Copies runs of `run` elements over the first `rank` dimensions.
    ///
    /// # Safety
    /// Every element of the box, seen from `src` and `dst`, can be read and written.
    unsafe fn copy_box(&self, rank: usize, run: i64, src: *const u8, dst: *mut u8) {
        let bytes = run as usize * self.elem;
        let step = |strides: &[i64], d: usize| (strides[d] * self.elem as i64) as isize;
        let Some(inner) = rank.checked_sub(1) else {
            // SAFETY: the box is this run.
            unsafe { std::ptr::copy(src, dst, bytes) };
            return;
        };
        let (n, from, to) = (self.shape[inner], step(self.from, inner), step(self.to, inner));
        let mut index = [0i64; 32];
        assert!(rank <= index.len(), "views have few dimensions");
        let (mut src, mut dst) = (src, dst);
        loop {
            // SAFETY: the pointers are at the first element of a row of the box.
            unsafe {
                match bytes {
                    1 => copy_elements::<1>(n, src, from, dst, to),
                    2 => copy_elements::<2>(n, src, from, dst, to),
                    4 => copy_elements::<4>(n, src, from, dst, to),
                    8 => copy_elements::<8>(n, src, from, dst, to),
                    _ => {
                        for i in 0..n as isize {
                            let (s, d) = (src.offset(i * from), dst.offset(i * to));
                            std::ptr::copy_nonoverlapping(s, d, bytes);
                        }
                    }
                }
            }
            let mut d = inner;
            loop {
                let Some(outer) = d.checked_sub(1) else { return };
                d = outer;
                index[d] += 1;
                src = src.wrapping_offset(step(self.from, d));
                dst = dst.wrapping_offset(step(self.to, d));
                if index[d] < self.shape[d] {
                    break;
                }
                index[d] = 0;
                src = src.wrapping_offset(-step(self.from, d) * self.shape[d] as isize);
                dst = dst.wrapping_offset(-step(self.to, d) * self.shape[d] as isize);
            }
        }
    }
}

/// # Safety
/// `n` elements of `SIZE` bytes, `from` and `to` bytes apart, can be read and written.
unsafe fn copy_elements<const SIZE: usize>(
    n: i64,
    src: *const u8,
    from: isize,
    dst: *mut u8,
    to: isize,
) {
    for i in 0..n as isize {
        // SAFETY: as the function's; an array of bytes has no alignment.
        unsafe {
            let element = src.offset(i * from).cast::<[u8; SIZE]>().read();
            dst.offset(i * to).cast::<[u8; SIZE]>().write(element);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(
        elem: usize,
        shape: &[i64],
        from: (i64, &[i64]),
        to: (i64, &[i64]),
        len: usize,
    ) -> Vec<u8> {
        let source: Vec<u8> = (0..len as u8).collect();
        let mut target = vec![255; len];
        copy(
            elem,
            shape,
            Source::from(&source[..]),
            Steps { offset: from.0, strides: from.1 },
            Target::from(&mut target[..]),
            Steps { offset: to.0, strides: to.1 },
        );
        target
    }

    #[test]
    fn rows_columns_and_elements() {
        assert_eq!(run(1, &[2, 3], (0, &[3, 1]), (0, &[3, 1]), 6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(run(1, &[3, 2], (0, &[1, 3]), (0, &[2, 1]), 6), [0, 3, 1, 4, 2, 5]);
        assert_eq!(run(2, &[2], (1, &[-1]), (0, &[1]), 4), [2, 3, 0, 1]);
        assert_eq!(run(1, &[2, 2], (0, &[4, 1]), (2, &[3, 1]), 7), [255, 255, 0, 1, 255, 4, 5]);
        assert_eq!(run(1, &[], (3, &[]), (0, &[]), 4), [3, 255, 255, 255]);
        assert_eq!(run(1, &[0, 4], (0, &[4, 1]), (90, &[4, 1]), 4), [255; 4]);
    }

    #[test]
    fn every_element_of_a_deep_box() {
        let (shape, from, to) = ([2, 3, 2, 2], [1, 2, 6, 12], [12, 4, 2, 1]);
        let copied = run(1, &shape, (0, &from), (0, &to), 24);
        let mut at = 0;
        for i in 0..2 {
            for j in 0..3 {
                for k in 0..2 {
                    for l in 0..2 {
                        assert_eq!(i64::from(copied[at]), i + 2 * j + 6 * k + 12 * l);
                        at += 1;
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "outside its allocation")]
    fn a_box_outside_is_refused() {
        run(1, &[4], (1, &[1]), (0, &[1]), 4);
    }
}
