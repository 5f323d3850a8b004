//! Members of `RefUnion`s: several allocations, one memory.

use super::window::ByteWindow;
use crate::observer::{AccessKind, BaseId, Window};
use pallas_rs_ir::{Alloc, Space, Within};
use rustc_hash::FxHashMap;

/// Bytes of a row of tensor memory: all its columns.
const TMEM_ROW: i64 = 512 * 4;
/// Bytes of a column.
const TMEM_COLUMN: i64 = 4;
/// Writes that are remembered per union. The oldest are forgotten first: what is read through another
/// member so much later is not noticed.
const WRITES: usize = 64;

/// Where a member lies.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// The member under which the accesses to all of them are kept.
    root: BaseId,
    within: Within,
    /// Elements of a row, where rows of tensor memory tell members apart.
    columns: Option<i64>,
}

/// The unions of a cluster. Owners are blocks.
#[derive(Debug, Default)]
pub(super) struct Unions {
    members: FxHashMap<(BaseId, u32), Member>,
    roots: FxHashMap<(u32, u32), BaseId>,
    /// By root: windows in the order of their latest write, and through which member that was.
    writes: FxHashMap<(BaseId, u32), Vec<(ByteWindow, BaseId)>>,
}

impl Unions {
    /// A scope has allocated a member.
    pub(super) fn enter(&mut self, base: BaseId, owner: u32, alloc: &Alloc) {
        let Some(within) = alloc.within() else { return };
        let root = *self.roots.entry((within.union, owner)).or_insert(base);
        let columns = match alloc.shape[..] {
            [_, columns] if base.space == Space::Tmem => Some(columns.max(1) as i64),
            _ => None,
        };
        self.members.insert((base, owner), Member { root, within, columns });
    }

    /// Its scope has ended.
    pub(super) fn leave(&mut self, base: BaseId, owner: u32) {
        let Some(member) = self.members.remove(&(base, owner)) else { return };
        if member.root == base {
            self.roots.remove(&(member.within.union, owner));
            self.writes.remove(&(base, owner));
        }
    }

    /// The allocation under which accesses to this one are kept, and the bytes of a window of it.
    pub(super) fn place(&self, window: &Window<'_>, owner: u32) -> Option<(BaseId, ByteWindow)> {
        if self.members.is_empty() {
            return Some((window.base, ByteWindow::new(window)?));
        }
        let Some(member) = self.members.get(&(window.base, owner)) else {
            return Some((window.base, ByteWindow::new(window)?));
        };
        let (elem, start) = (window.elem_size as i64, member.within.offset as i64);
        let bytes = match member.columns {
            None if window.base.space == Space::Tmem => ByteWindow::new(window)?,
            None => ByteWindow::new(window)?.shifted(start),
            Some(columns) => {
                let row = TMEM_ROW / elem;
                let (offset, rows) = (window.offset % columns, window.offset / columns);
                let wide = |&s: &i64| if s % columns == 0 { s / columns * row } else { s };
                let strides: Vec<i64> = window.strides.iter().map(wide).collect();
                let moved = Window { offset: rows * row + offset, strides: &strides, ..*window };
                ByteWindow::new(&moved)?.shifted(start * TMEM_COLUMN)
            }
        };
        Some((member.root, bytes))
    }

    /// Remembers a write. For a read: whether the bytes were last written through another member.
    pub(super) fn is_foreign(
        &mut self,
        window: &Window<'_>,
        bytes: &ByteWindow,
        kind: AccessKind,
        owner: u32,
    ) -> bool {
        let Some(member) = self.members.get(&(window.base, owner)) else { return false };
        let writes = self.writes.entry((member.root, owner)).or_default();
        match kind {
            AccessKind::Read => {
                let latest = writes.iter().rev().find(|(written, _)| written.overlaps(bytes));
                latest.is_some_and(|&(_, through)| through != window.base)
            }
            AccessKind::Write | AccessKind::Atomic => {
                writes.retain(|(written, _)| written != bytes);
                if writes.len() == WRITES {
                    writes.remove(0);
                }
                writes.push((bytes.clone(), window.base));
                false
            }
        }
    }
}
