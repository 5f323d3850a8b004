//! Which values come from memory that nobody wrote.
//!
//! Every byte of memory, and every element of a register, has a *tag*: 0 is defined, any other number
//! says where the garbage comes from. Tags go where values go; they are reported where a value is
//! used: as an index, in a branch, as a bound, in an output. Reading a tile of which only the written
//! part is used is no mistake, so a read alone is never reported (the policy of Valgrind's Memcheck
//! and of LLVM's `MemorySanitizer`).

mod memory;
mod propagate;
mod scalars;
mod shade;
mod track;

use memory::MemoryShade;
pub(crate) use shade::{Shades, Tag};

use crate::memory::TileId;
use crate::observer::At;
use pallas_rs_ir::{Binding, Program};
use rustc_hash::FxHashMap;

/// Where garbage comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// An argument of the program that starts unwritten.
    Arg(u32),
    /// An allocation of a scope.
    Alloc(u32),
    /// The part of a window outside its argument.
    Outside,
    /// More sources than there are tags.
    Many,
}

/// What a value of unknown origin decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Usage {
    /// Where something is read or written.
    Index,
    /// Whether something is done.
    Branch,
    /// How often something is done.
    Bound,
    /// A number in an output.
    Output,
}

/// A use of garbage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) usage: Usage,
    pub(crate) origin: Origin,
    pub(crate) at: At,
    pub(crate) count: u64,
}

/// Elements of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) count: u64,
    /// The first one, in row-major order.
    pub(crate) first: Vec<usize>,
    /// First and last index per dimension.
    pub(crate) bounds: Vec<(usize, usize)>,
}

/// What is known of a run's memory.
#[derive(Debug, Default)]
pub(crate) struct Definedness {
    /// By argument; none: all of it is defined.
    args: Vec<Option<MemoryShade>>,
    /// Arguments that are results of the call.
    outputs: Vec<bool>,
    /// Allocations, by their storage.
    tiles: FxHashMap<TileId, MemoryShade>,
    /// Meaning of tag `i + 1`.
    origins: Vec<Origin>,
    uses: Vec<Use>,
}

/// The tag that stands for several origins.
const MANY: Tag = Tag::MAX;

impl Definedness {
    /// Before a run: results of the call are unwritten, other arguments are not.
    pub(crate) fn of(program: &Program) -> Definedness {
        let mut new = Definedness::default();
        for (number, arg) in program.args.iter().enumerate() {
            let is_result = !matches!(arg.binding, Binding::Operand(_));
            new.outputs.push(is_result && !arg.scratch);
            let shade = if let Binding::Result(_) = arg.binding {
                let bytes = arg.shape.iter().product::<usize>() * arg.dtype.size();
                Some(MemoryShade::new(bytes, new.tag(Origin::Arg(number as u32))))
            } else {
                None
            };
            new.args.push(shade);
        }
        new
    }

    fn tag(&mut self, origin: Origin) -> Tag {
        if origin == Origin::Many {
            return MANY;
        }
        let known = self.origins.iter().position(|&o| o == origin);
        let at = known.unwrap_or_else(|| {
            if self.origins.len() + 1 < usize::from(MANY) {
                self.origins.push(origin);
            }
            self.origins.len() - 1
        });
        if self.origins[at] == origin { at as Tag + 1 } else { MANY }
    }

    fn origin(&self, tag: Tag) -> Origin {
        self.origins.get(usize::from(tag) - 1).copied().unwrap_or(Origin::Many)
    }

    /// An allocation has begun.
    pub(crate) fn begin(&mut self, tile: TileId, bytes: usize, alloc: u32) {
        let tag = self.tag(Origin::Alloc(alloc));
        self.tiles.insert(tile, MemoryShade::new(bytes, tag));
    }

    /// An allocation is gone.
    pub(crate) fn end(&mut self, tile: TileId) {
        self.tiles.remove(&tile);
    }

    /// A value with this tag decides something.
    fn used(&mut self, tag: Tag, usage: Usage, at: At) {
        if tag == 0 {
            return;
        }
        let origin = self.origin(tag);
        let same = |u: &&mut Use| u.usage == usage && u.origin == origin && u.at.span == at.span;
        match self.uses.iter_mut().find(same) {
            Some(known) => known.count += 1,
            None => self.uses.push(Use { usage, origin, at, count: 1 }),
        }
    }

    /// What is to be reported. `ended`: the run did, so what is unwritten now stays so.
    pub(crate) fn into_garbage(self, program: &Program, ended: bool) -> Garbage {
        let mut unwritten = Vec::new();
        for (number, shade) in self.args.iter().enumerate().filter(|_| ended) {
            let (Some(shade), true) = (shade, self.outputs[number]) else { continue };
            let origin = Origin::Arg(number as u32);
            let Some(tag) = self.origins.iter().position(|&o| o == origin) else { continue };
            let arg = &program.args[number];
            if let Some(region) = shade.region(tag as Tag + 1, arg.dtype.size(), &arg.shape) {
                unwritten.push((number as u32, region));
            }
        }
        Garbage { uses: self.uses, unwritten }
    }
}

/// What one run left behind, as data for the report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Garbage {
    pub(crate) uses: Vec<Use>,
    /// Elements of outputs that nobody wrote, by argument.
    pub(crate) unwritten: Vec<(u32, Region)>,
}
