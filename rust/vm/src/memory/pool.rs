//! Storage of tiles and block memory: reference-counted, aligned buffers that are never given back
//! to the allocator while a run lasts.

/// A cache line, and the widest vector register.
const ALIGN: usize = 64;
/// Buffers come in powers of two from one cache line up.
const CLASSES: usize = 58;

/// A buffer of a [`Pool`]. Handles are plain numbers: whoever stores one owns a count of it and says
/// so by [`Pool::retain`] and [`Pool::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TileId(u32);

/// Aligned bytes.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
}

impl Buffer {
    fn new(capacity: usize) -> Buffer {
        let bytes = vec![0; capacity + ALIGN].into_boxed_slice();
        let start = bytes.as_ptr().align_offset(ALIGN);
        Buffer { bytes, start }
    }

    /// The first `len` bytes.
    pub(crate) fn bytes(&self, len: usize) -> &[u8] {
        &self.bytes[self.start..self.start + len]
    }

    /// The first `len` bytes.
    pub(crate) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + len]
    }
}

#[derive(Debug)]
struct Slot {
    buffer: Buffer,
    refs: u32,
    class: u8,
}

/// All buffers of one worker.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    free: [Vec<TileId>; CLASSES],
    in_use: usize,
    /// Bytes of all buffers.
    bytes: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Pool { slots: Vec::new(), free: [const { Vec::new() }; CLASSES], in_use: 0, bytes: 0 }
    }
}

impl Pool {
    /// A buffer of at least `len` bytes with one count; what it holds is left over from its last use.
    pub(crate) fn alloc(&mut self, len: usize) -> TileId {
        let class = len.max(ALIGN).next_power_of_two().trailing_zeros() as usize - 6;
        self.in_use += 1;
        if let Some(id) = self.free[class].pop() {
            self.slots[id.0 as usize].refs = 1;
            return id;
        }
        let id = TileId(self.slots.len() as u32);
        let buffer = Buffer::new(ALIGN << class);
        self.bytes += ALIGN << class;
        self.slots.push(Slot { buffer, refs: 1, class: class as u8 });
        id
    }

    /// One more owner.
    pub(crate) fn retain(&mut self, id: TileId) {
        self.slots[id.0 as usize].refs += 1;
    }

    /// One owner less; the last one gives the buffer back.
    pub(crate) fn release(&mut self, id: TileId) {
        let slot = &mut self.slots[id.0 as usize];
        slot.refs -= 1;
        if slot.refs == 0 {
            self.free[slot.class as usize].push(id);
            self.in_use -= 1;
        }
    }

    /// Whether there is only one owner, who may write in place.
    pub(crate) fn is_unique(&self, id: TileId) -> bool {
        self.slots[id.0 as usize].refs == 1
    }

    /// The first `len` bytes of a buffer.
    pub(crate) fn bytes(&self, id: TileId, len: usize) -> &[u8] {
        self.slots[id.0 as usize].buffer.bytes(len)
    }

    /// All bytes of a buffer.
    pub(crate) fn whole(&self, id: TileId) -> &[u8] {
        let slot = &self.slots[id.0 as usize];
        slot.buffer.bytes(ALIGN << slot.class)
    }

    /// All bytes of a buffer, to write.
    pub(crate) fn whole_mut(&mut self, id: TileId) -> &mut [u8] {
        let slot = &mut self.slots[id.0 as usize];
        slot.buffer.bytes_mut(ALIGN << slot.class)
    }

    /// The first `len` bytes of a buffer, to write.
    pub(crate) fn bytes_mut(&mut self, id: TileId, len: usize) -> &mut [u8] {
        self.slots[id.0 as usize].buffer.bytes_mut(len)
    }

    /// Takes the bytes out, so that they can be written while others are read; [`Pool::put`] follows.
    pub(crate) fn take(&mut self, id: TileId) -> Buffer {
        std::mem::take(&mut self.slots[id.0 as usize].buffer)
    }

    /// Puts back what [`Pool::take`] took.
    pub(crate) fn put(&mut self, id: TileId, buffer: Buffer) {
        self.slots[id.0 as usize].buffer = buffer;
    }

    /// Bytes of all buffers, with an owner or without.
    pub(crate) fn total(&self) -> usize {
        self.bytes
    }

    /// Buffers that have an owner.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let mut pool = Pool::default();
        let a = pool.alloc(1000);
        assert_eq!(pool.bytes(a, 1000).as_ptr().align_offset(ALIGN), 0);
        pool.retain(a);
        assert!(!pool.is_unique(a));
        pool.release(a);
        pool.release(a);
        assert_eq!(pool.in_use(), 0);
        assert_eq!(pool.alloc(600), a);
        assert_ne!(pool.alloc(600), a);
        let empty = pool.alloc(0);
        assert!(pool.bytes(empty, 0).is_empty());
    }

    #[test]
    fn one_buffer_can_be_written_while_another_is_read() {
        let mut pool = Pool::default();
        let (a, b) = (pool.alloc(4), pool.alloc(4));
        pool.bytes_mut(a, 4).copy_from_slice(&[1, 2, 3, 4]);
        let mut out = pool.take(b);
        out.bytes_mut(4).copy_from_slice(pool.bytes(a, 4));
        pool.put(b, out);
        assert_eq!(pool.bytes(b, 4), [1, 2, 3, 4]);
    }
}
