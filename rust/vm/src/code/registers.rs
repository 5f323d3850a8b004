//! Which registers are free.

use super::inst::Reg;
use pallas_rs_ir::Type;

/// A register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum File {
    Scalar,
    Tile,
    Ref,
}

impl From<&Type> for File {
    fn from(ty: &Type) -> Self {
        match ty {
            Type::Scalar(_) => File::Scalar,
            Type::Tile(..) => File::Tile,
            Type::Ref(_) => File::Ref,
        }
    }
}

/// A register of some file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: File,
    pub(crate) reg: Reg,
}

/// The three files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registers {
    files: [Entries; 3],
    /// No register is used for a second value.
    keep: bool,
}

#[derive(Clone, Debug, Default)]
struct Entries {
    /// By register: how many loops and branches hold it, whatever becomes of its value.
    pins: Vec<u32>,
    free: Vec<Reg>,
}

impl Registers {
    fn file(&mut self, file: File) -> &mut Entries {
        &mut self.files[file as usize]
    }

    /// Number of registers of a file.
    pub(crate) fn count(&self, file: File) -> usize {
        self.files[file as usize].pins.len()
    }

    /// Registers that keep their value to the end.
    pub(crate) fn kept() -> Registers {
        Registers { keep: true, ..Registers::default() }
    }

    /// A free register.
    pub(crate) fn take(&mut self, file: File) -> Place {
        match self.file(file).free.pop() {
            Some(reg) => Place { file, reg },
            None => self.fresh(file),
        }
    }

    /// A register that never held anything, for ever: its value is there before the code runs.
    pub(crate) fn permanent(&mut self, file: File) -> Place {
        let place = self.fresh(file);
        self.pin(place);
        place
    }

    fn fresh(&mut self, file: File) -> Place {
        let pins = &mut self.file(file).pins;
        pins.push(0);
        Place { file, reg: pins.len() as Reg - 1 }
    }

    /// The value in a register has died.
    pub(crate) fn give_back(&mut self, place: Place) {
        if !self.keep && !self.is_pinned(place) {
            self.file(place.file).free.push(place.reg);
        }
    }

    /// Keeps a register from being given back.
    pub(crate) fn pin(&mut self, place: Place) {
        self.file(place.file).pins[place.reg as usize] += 1;
    }

    /// Undoes [`Registers::pin`].
    pub(crate) fn unpin(&mut self, place: Place) {
        self.file(place.file).pins[place.reg as usize] -= 1;
    }

    pub(crate) fn is_pinned(&self, place: Place) -> bool {
        self.files[place.file as usize].pins[place.reg as usize] > 0
    }

    /// Goes back to what was free at `start`, of one branch, for the next branch to begin with;
    /// registers made since are free too.
    pub(crate) fn rewind(&mut self, start: &Registers) {
        for (now, then) in self.files.iter_mut().zip(&start.files) {
            now.free.clone_from(&then.free);
            let made = then.pins.len() as Reg..now.pins.len() as Reg;
            now.free.extend(made.filter(|&reg| now.pins[reg as usize] == 0));
        }
    }
}

/// A copy between registers of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) file: File,
    pub(crate) dst: Reg,
    pub(crate) src: Reg,
    /// Whether the source's value dies.
    pub(crate) last: bool,
}

/// Puts moves that happen at the same time into an order in which they can happen one after another.
/// `spare` gives a register for a cycle.
pub(crate) fn sequence(moves: &[Move], mut spare: impl FnMut(File) -> Reg) -> Vec<Move> {
    let stays = |m: &Move| m.dst == m.src;
    let mut pending: Vec<Move> = moves.iter().copied().filter(|m| !stays(m)).collect();
    for m in &mut pending {
        m.last &= !moves.iter().any(|s| stays(s) && s.file == m.file && s.src == m.src);
    }
    let mut out = Vec::with_capacity(pending.len());
    while !pending.is_empty() {
        let same = |a: &Move, b: &Move| a.file == b.file;
        let reads = |m: &Move, other: &Move| same(m, other) && other.src == m.dst;
        let free = pending.iter().position(|m| !pending.iter().any(|other| reads(m, other)));
        if let Some(i) = free {
            let mut m = pending.remove(i);
            m.last &= !pending.iter().any(|other| same(&m, other) && other.src == m.src);
            out.push(m);
        } else {
            // Every target is still read: move one value of the cycle out of the way.
            let Move { file, src, .. } = pending[0];
            let dst = spare(file);
            out.push(Move { file, dst, src, last: true });
            for m in pending.iter_mut().filter(|m| m.file == file && m.src == src) {
                (m.src, m.last) = (dst, true);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(moves: &[(Reg, Reg)], values: &[i32]) -> Vec<i32> {
        let file = File::Scalar;
        let moves: Vec<Move> =
            moves.iter().map(|&(dst, src)| Move { file, dst, src, last: true }).collect();
        let mut regs = values.to_vec();
        regs.push(-1);
        for m in sequence(&moves, |_| values.len() as Reg) {
            regs[m.dst as usize] = regs[m.src as usize];
            if m.last {
                regs[m.src as usize] = -2;
            }
        }
        regs.truncate(values.len());
        regs
    }

    #[test]
    fn moves_happen_at_the_same_time() {
        assert_eq!(run(&[(0, 1), (1, 0)], &[10, 11]), [11, 10]);
        assert_eq!(run(&[(0, 1), (1, 2)], &[10, 11, 12])[..2], [11, 12]);
        assert_eq!(run(&[(1, 0), (2, 1)], &[10, 11, 12])[1..], [10, 11]);
        assert_eq!(run(&[(0, 1), (1, 2), (2, 0)], &[10, 11, 12]), [11, 12, 10]);
        assert_eq!(run(&[(0, 0), (1, 0)], &[10, 11]), [10, 10]);
        assert_eq!(run(&[(1, 0), (2, 0)], &[10, 11, 12])[1..], [10, 10]);
    }

    #[test]
    fn branches_start_from_the_same_registers() {
        let mut regs = Registers::default();
        let a = regs.take(File::Tile);
        let start = regs.clone();
        regs.give_back(a);
        let b = regs.take(File::Tile);
        assert_eq!(a, b);
        regs.take(File::Tile);
        regs.rewind(&start);
        assert_eq!(regs.take(File::Tile).reg, 1);
        assert_eq!(regs.take(File::Tile).reg, 2);
    }
}
