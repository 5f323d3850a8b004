//! Tags of registers.

use std::sync::Arc;

/// Where an element's garbage comes from; 0: it is defined.
pub(crate) type Tag = u8;

/// Tags of a tile's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shade {
    /// All the same.
    All(Tag),
    /// One each, row-major.
    Each(Arc<[Tag]>),
}

impl Default for Shade {
    fn default() -> Shade {
        Shade::All(0)
    }
}

impl Shade {
    /// From one tag per element.
    pub(crate) fn new(tags: Vec<Tag>) -> Shade {
        match tags.first() {
            Some(&first) if tags.iter().any(|&t| t != first) => Shade::Each(tags.into()),
            first => Shade::All(first.copied().unwrap_or(0)),
        }
    }

    /// Element by element, for `len` elements.
    pub(crate) fn from_fn(len: usize, tag: impl FnMut(usize) -> Tag) -> Shade {
        Shade::new((0..len).map(tag).collect())
    }

    pub(crate) fn is_defined(&self) -> bool {
        *self == Shade::All(0)
    }

    /// Tag of an element; a scalar has every index.
    pub(crate) fn at(&self, i: usize) -> Tag {
        match self {
            Shade::All(tag) => *tag,
            Shade::Each(tags) => tags.get(i).copied().unwrap_or(0),
        }
    }

    /// A tag among all elements that is not 0, if there is one.
    pub(crate) fn any(&self) -> Tag {
        match self {
            Shade::All(tag) => *tag,
            Shade::Each(tags) => tags.iter().copied().find(|&t| t != 0).unwrap_or(0),
        }
    }

    /// What depends on both, elementwise.
    pub(crate) fn join(&self, other: &Shade) -> Shade {
        match (self, other) {
            (Shade::All(0), x) | (x, Shade::All(0)) => x.clone(),
            (Shade::All(t), _) | (_, Shade::All(t)) => Shade::All(*t),
            (Shade::Each(a), Shade::Each(b)) => Shade::from_fn(a.len(), |i| either(a[i], b[i])),
        }
    }
}

/// The tag of what depends on two elements.
pub(crate) fn either(a: Tag, b: Tag) -> Tag {
    if a != 0 { a } else { b }
}

/// Tags of a thread's registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shades {
    scalars: Vec<Tag>,
    tiles: Vec<Shade>,
}

impl Shades {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.scalars.clear();
        self.tiles.clear();
    }

    pub(crate) fn scalar(&self, register: u32) -> Tag {
        self.scalars.get(register as usize).copied().unwrap_or(0)
    }

    pub(crate) fn set_scalar(&mut self, register: u32, tag: Tag) {
        let at = register as usize;
        if tag == 0 && at >= self.scalars.len() {
            return;
        }
        if self.scalars.len() <= at {
            self.scalars.resize(at + 1, 0);
        }
        self.scalars[at] = tag;
    }

    pub(crate) fn tile(&self, register: u32) -> Shade {
        self.tiles.get(register as usize).cloned().unwrap_or_default()
    }

    pub(crate) fn set_tile(&mut self, register: u32, shade: Shade) {
        let at = register as usize;
        if shade.is_defined() && at >= self.tiles.len() {
            return;
        }
        if self.tiles.len() <= at {
            self.tiles.resize(at + 1, Shade::default());
        }
        self.tiles[at] = shade;
    }
}
