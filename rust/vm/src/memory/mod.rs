//! Memory as the ops see it: views are read into dense tiles and written from them.

pub(crate) mod area;
pub(crate) mod fill;
pub(crate) mod gmem;
pub(crate) mod pool;
pub(crate) mod ref_val;

pub(crate) use fill::{Contents, fill};
pub(crate) use gmem::Gmem;
pub(crate) use pool::{Buffer, Pool, TileId};
pub(crate) use ref_val::{Base, NotAView, RefDim, RefVal};

use area::{Source, Steps, Target};
use pallas_rs_core::DType;
use smallvec::SmallVec;

type Dims = SmallVec<[i64; 4]>;

/// The existing part of a view and where it stands in the dense tile of the whole view.
struct Part {
    shape: Dims,
    memory_offset: i64,
    memory_strides: Dims,
    tile_offset: i64,
    tile_strides: Dims,
}

fn part(view: &RefVal) -> Option<Part> {
    view.bounds()?;
    let rank = view.dims.len();
    let mut part = Part {
        shape: view.dims.iter().map(|d| d.hi - d.lo).collect(),
        memory_offset: view.offset,
        memory_strides: view.dims.iter().map(|d| d.stride).collect(),
        tile_offset: 0,
        tile_strides: SmallVec::from_elem(0, rank),
    };
    let mut stride = 1;
    for (axis, dim) in view.dims.iter().enumerate().rev() {
        part.tile_strides[axis] = stride;
        part.tile_offset += dim.lo * stride;
        part.memory_offset += dim.lo * dim.stride;
        stride *= dim.size;
    }
    Some(part)
}

/// Copies a view of `source` into the dense `tile`; elements that do not exist become `missing`.
pub(crate) fn read_view(
    source: Source<'_>,
    view: &RefVal,
    dtype: DType,
    missing: Contents,
    tile: &mut [u8],
) {
    let elem = dtype.size();
    if let Some(len) = view.dense_len() {
        return source.read(elem, view.offset, &mut tile[..len as usize * elem]);
    }
    if !view.is_full() {
        fill(dtype, missing, tile);
    }
    if let Some(p) = part(view) {
        let from = Steps { offset: p.memory_offset, strides: &p.memory_strides };
        let to = Steps { offset: p.tile_offset, strides: &p.tile_strides };
        area::copy(elem, &p.shape, source, from, tile.into(), to);
    }
}

/// Copies the dense `tile` into a view of `target`; elements that do not exist are dropped.
pub(crate) fn write_view(mut target: Target<'_>, view: &RefVal, elem: usize, tile: &[u8]) {
    if let Some(len) = view.dense_len() {
        return target.write(elem, view.offset, &tile[..len as usize * elem]);
    }
    if let Some(p) = part(view) {
        let from = Steps { offset: p.tile_offset, strides: &p.tile_strides };
        let to = Steps { offset: p.memory_offset, strides: &p.memory_strides };
        area::copy(elem, &p.shape, tile.into(), from, target, to);
    }
}

/// The element of a view at `index`, counted from the start of the allocation; `None` when it does
/// not exist.
pub(crate) fn element(view: &RefVal, index: &[i64]) -> Option<i64> {
    let inside = view.dims.iter().zip(index).all(|(d, &i)| d.lo <= i && i < d.hi);
    let at = || view.dims.iter().zip(index).map(|(d, &i)| i * d.stride).sum::<i64>();
    (inside && !view.void).then(|| view.offset + at())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pallas_rs_ir::BlockDim;

    #[test]
    fn a_ragged_block_reads_what_is_missing_and_drops_what_does_not_exist() {
        let dims = [BlockDim::Blocked(2), BlockDim::Blocked(2)];
        let array: Vec<u8> = (0..9).collect();
        let view = RefVal::whole(Base::Global(0), &[3, 3]).block_window(&dims, [1, 1]).unwrap();
        let mut tile = [0; 4];
        read_view((&array[..]).into(), &view, DType::U8, Contents::Unwritten, &mut tile);
        assert_eq!(tile, [8, 255, 255, 255]);
        let mut target = array.clone();
        write_view((&mut target[..]).into(), &view, 1, &[70, 71, 72, 73]);
        assert_eq!(target, [0, 1, 2, 3, 4, 5, 6, 7, 70]);
    }

    #[test]
    fn a_transposed_view() {
        let array: Vec<u8> = (0..6).collect();
        let view = RefVal::whole(Base::Global(0), &[2, 3]).transpose(&[1, 0]);
        let mut tile = [0; 6];
        read_view((&array[..]).into(), &view, DType::U8, Contents::Zero, &mut tile);
        assert_eq!(tile, [0, 3, 1, 4, 2, 5]);
        let mut target = vec![0; 6];
        write_view((&mut target[..]).into(), &view, 1, &tile);
        assert_eq!(target, array);
    }

    #[test]
    fn elements_by_index() {
        let dims = [BlockDim::Blocked(2), BlockDim::Blocked(2)];
        let view = RefVal::whole(Base::Global(0), &[3, 3]).block_window(&dims, [1, 0]).unwrap();
        assert_eq!(element(&view, &[0, 1]), Some(7));
        assert_eq!(element(&view, &[1, 1]), None);
    }
}
