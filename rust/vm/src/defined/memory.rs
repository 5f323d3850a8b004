//! Tags of memory.

use super::Region;
use super::shade::Tag;
use crate::memory::RefVal;

/// Tags of an allocation, one per byte: views may see it as elements of another size.
#[derive(Clone, Debug)]
pub(crate) struct MemoryShade {
    bytes: Vec<Tag>,
    /// Bytes whose tag is not 0.
    undefined: usize,
}

impl MemoryShade {
    pub(super) fn new(bytes: usize, tag: Tag) -> MemoryShade {
        MemoryShade { bytes: vec![tag; bytes], undefined: if tag == 0 { 0 } else { bytes } }
    }

    /// Whether every byte has been written with something defined.
    pub(super) fn is_defined(&self) -> bool {
        self.undefined == 0
    }

    /// The tag of an element.
    pub(super) fn get(&self, element: i64, size: usize) -> Tag {
        let start = element as usize * size;
        let bytes = self.bytes.get(start..start + size).unwrap_or_default();
        bytes.iter().copied().find(|&tag| tag != 0).unwrap_or(0)
    }

    pub(super) fn set(&mut self, element: i64, size: usize, tag: Tag) {
        let start = element as usize * size;
        for byte in self.bytes.get_mut(start..start + size).unwrap_or_default() {
            self.undefined = self.undefined - usize::from(*byte != 0) + usize::from(tag != 0);
            *byte = tag;
        }
    }

    /// The elements of a row-major array that have a tag.
    pub(super) fn region(&self, tag: Tag, size: usize, shape: &[usize]) -> Option<Region> {
        if self.is_defined() {
            return None;
        }
        let total: usize = shape.iter().product();
        let mut found: Option<Region> = None;
        for element in (0..total).filter(|&e| self.get(e as i64, size) == tag) {
            let index = unravel(element, shape);
            match &mut found {
                None => {
                    let bounds = index.iter().map(|&i| (i, i)).collect();
                    found = Some(Region { count: 1, first: index, bounds });
                }
                Some(region) => {
                    region.count += 1;
                    for (bound, &i) in region.bounds.iter_mut().zip(&index) {
                        *bound = (bound.0.min(i), bound.1.max(i));
                    }
                }
            }
        }
        found
    }
}

/// The index of an element counted row-major.
pub(super) fn unravel(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (x, &n) in index.iter_mut().zip(shape).rev() {
        *x = element % n.max(1);
        element /= n.max(1);
    }
    index
}

/// Visits the elements of a view in row-major order: position, and place in the allocation if it
/// exists.
pub(super) fn each_element(view: &RefVal, mut visit: impl FnMut(usize, Option<i64>)) {
    let len: i64 = view.dims.iter().map(|d| d.size).product();
    let mut index = vec![0i64; view.dims.len()];
    for position in 0..len as usize {
        let mut offset = view.offset;
        let mut exists = !view.void;
        for (&i, dim) in index.iter().zip(&view.dims) {
            offset += i * dim.stride;
            exists &= dim.lo <= i && i < dim.hi;
        }
        visit(position, exists.then_some(offset));
        for (x, dim) in index.iter_mut().zip(&view.dims).rev() {
            *x += 1;
            if *x < dim.size {
                break;
            }
            *x = 0;
        }
    }
}
