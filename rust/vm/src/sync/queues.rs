//! Operations of a thread that complete in groups: TMA stores, cp.async copies, wgmma.

use std::collections::VecDeque;

/// Issued operations, oldest first. A group is what was issued between two commits; groups complete
/// in the order of their commits. The storage is reused, so that a steady loop does not allocate.
#[derive(Clone, Debug)]
pub(crate) struct GroupQueue<T> {
    /// Operations and the number of their group, which never decreases.
    operations: VecDeque<(u64, T)>,
    /// The group that is open; those below are committed.
    open: u64,
}

impl<T> Default for GroupQueue<T> {
    fn default() -> Self {
        GroupQueue { operations: VecDeque::new(), open: 0 }
    }
}

impl<T> GroupQueue<T> {
    /// Adds an operation to the open group.
    #[inline]
    pub(crate) fn push(&mut self, operation: T) {
        self.operations.push_back((self.open, operation));
    }

    /// Closes the open group, which may be empty.
    #[inline]
    pub(crate) fn commit(&mut self) {
        self.open += 1;
    }

    /// Takes out the oldest operation that a wait for at most `n` groups in flight covers. One in a
    /// group that is still open is covered by no wait.
    #[inline]
    pub(crate) fn pop_due(&mut self, n: u32) -> Option<T> {
        let (group, _) = self.operations.front()?;
        if group + u64::from(n) < self.open {
            self.operations.pop_front().map(|(_, operation)| operation)
        } else {
            None
        }
    }

    /// The operations that such a wait covers, to be changed in place.
    pub(crate) fn due_mut(&mut self, n: u32) -> impl Iterator<Item = &mut T> {
        let open = self.open;
        self.operations
            .iter_mut()
            .take_while(move |(group, _)| group + u64::from(n) < open)
            .map(|(_, operation)| operation)
    }

    /// Takes out the oldest operation, whatever its group: the thread has ended.
    pub(crate) fn pop_any(&mut self) -> Option<T> {
        self.operations.pop_front().map(|(_, operation)| operation)
    }

    /// Takes out the oldest operation for which `which` holds.
    pub(crate) fn pop_where(&mut self, which: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.operations.iter().position(|(_, operation)| which(operation))?;
        self.operations.remove(at).map(|(_, operation)| operation)
    }

    /// Takes over the groups of another queue, behind its own.
    pub(crate) fn append(&mut self, other: GroupQueue<T>) {
        let open = self.open;
        let behind =
            other.operations.into_iter().map(|(group, operation)| (open + group, operation));
        self.operations.extend(behind);
        self.open += other.open;
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(queue: &mut GroupQueue<char>, n: u32) -> String {
        std::iter::from_fn(|| queue.pop_due(n)).collect()
    }

    #[test]
    fn a_wait_counts_committed_groups_from_the_newest() {
        let mut queue = GroupQueue::default();
        for (operation, commit) in [('a', true), ('b', false), ('c', true), ('d', true)] {
            queue.push(operation);
            if commit {
                queue.commit();
            }
        }
        assert_eq!(due(&mut queue, 3), "");
        assert_eq!(due(&mut queue, 2), "a");
        assert_eq!(due(&mut queue, 1), "bc");
        assert_eq!(due(&mut queue, 0), "d");
    }

    #[test]
    fn an_open_group_is_covered_by_no_wait() {
        let mut queue = GroupQueue::default();
        queue.push('a');
        assert_eq!(due(&mut queue, 0), "");
        queue.commit();
        queue.push('b');
        assert_eq!(queue.due_mut(0).map(|c| *c).collect::<String>(), "a");
        assert_eq!(due(&mut queue, 0), "a");
        assert_eq!(queue.pop_where(|&c| c == 'x'), None);
        assert_eq!(queue.pop_any(), Some('b'));
        assert!(queue.is_empty());
    }

    #[test]
    fn groups_of_another_queue_come_behind() {
        let (mut queue, mut other) = (GroupQueue::default(), GroupQueue::default());
        for (queue, operation) in [(&mut queue, 'a'), (&mut other, 'b')] {
            queue.push(operation);
            queue.commit();
        }
        other.push('c');
        queue.append(other);
        assert_eq!(due(&mut queue, 1), "a");
        queue.commit();
        assert_eq!(due(&mut queue, 0), "bc");
    }

    #[test]
    fn an_empty_commit_is_a_group_too() {
        let mut queue = GroupQueue::default();
        queue.push('a');
        queue.commit();
        queue.commit();
        assert_eq!(due(&mut queue, 1), "a");
    }
}
