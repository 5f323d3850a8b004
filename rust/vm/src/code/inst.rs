//! Instructions.
//!
//! Index arithmetic and control flow have instructions of their own, because a kernel executes
//! millions of them; everything else is an [`Inst::Op`] with a [`super::Record`].

use pallas_rs_core::{BinaryKind, CompareKind, DType, UnaryKind};

/// A register number.
pub(crate) type Reg = u32;

/// One instruction. Jump targets are positions in [`super::Code::insts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inst {
    // ---- moves --------------------------------------------------------------------------------
    MoveScalar {
        dst: Reg,
        src: Reg,
    },
    /// `last`: the source gives its tile away.
    MoveTile {
        dst: Reg,
        src: Reg,
        last: bool,
    },
    MoveRef {
        dst: Reg,
        src: Reg,
    },
    DropTile {
        tile: Reg,
    },
    // ---- scalar arithmetic --------------------------------------------------------------------
    AddI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    SubI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    MulI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    /// Truncates; traps on zero.
    DivI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    /// Takes the dividend's sign; traps on zero.
    RemI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    MaxI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    MinI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    EqI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    NeI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    LtI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    LeI32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    AddI64 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    SubI64 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    MulI64 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    LtI64 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    /// Also the logical operations of booleans.
    And {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    Or {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    Xor {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    NotBool {
        dst: Reg,
        x: Reg,
    },
    AddF32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    SubF32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    MulF32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    DivF32 {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    I32ToI64 {
        dst: Reg,
        x: Reg,
    },
    ToI32 {
        dst: Reg,
        x: Reg,
    },
    Unary {
        kind: UnaryKind,
        dtype: DType,
        dst: Reg,
        x: Reg,
    },
    Binary {
        kind: BinaryKind,
        dtype: DType,
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    Compare {
        kind: CompareKind,
        dtype: DType,
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    Convert {
        from: DType,
        to: DType,
        dst: Reg,
        x: Reg,
    },
    /// Two cases; `which` is 0 or not.
    Select {
        dst: Reg,
        which: Reg,
        zero: Reg,
        other: Reg,
    },
    // ---- where am I ---------------------------------------------------------------------------
    ProgramId {
        dst: Reg,
        axis: u32,
    },
    NumPrograms {
        dst: Reg,
        axis: u32,
    },
    ClusterIndex {
        dst: Reg,
        axis: u32,
    },
    ThreadIndex {
        dst: Reg,
    },
    // ---- control flow -------------------------------------------------------------------------
    Jump {
        to: u32,
    },
    /// The end of a round of a loop without a known end.
    JumpBack {
        to: u32,
    },
    JumpIf {
        condition: Reg,
        to: u32,
    },
    JumpUnless {
        condition: Reg,
        to: u32,
    },
    /// Jumps to entry `index`, clamped, of `tables[table]`.
    JumpTable {
        index: Reg,
        dtype: DType,
        table: u32,
    },
    /// Leaves a loop that has no rounds.
    ForEnter {
        counter: Reg,
        end: Reg,
        exit: u32,
    },
    ForNext {
        counter: Reg,
        end: Reg,
        body: u32,
    },
    /// As the two above, for counters that are not int32.
    ForEnterWide {
        counter: Reg,
        end: Reg,
        dtype: DType,
        exit: u32,
    },
    ForNextWide {
        counter: Reg,
        end: Reg,
        dtype: DType,
        body: u32,
    },
    /// Allocates; the refs go to the registers of the scope.
    EnterScope {
        scope: u32,
    },
    LeaveScope {
        scope: u32,
    },
    /// Runs the code that follows, up to [`Inst::EndWarp`], in each warp of the warpgroup, with `warp`
    /// holding its number; the warpgroup itself goes to `after`.
    Fork {
        warp: Reg,
        after: u32,
    },
    EndWarp,
    /// Waits for the warps.
    Join,
    // ---- everything else ----------------------------------------------------------------------
    /// Elementwise ops as one: `chains[chain]`.
    Chain {
        chain: u32,
    },
    /// A chain whose only output is what a store stores and nobody else reads.
    ChainStore {
        chain: u32,
        record: u32,
    },
    /// `records[record]`.
    Op {
        record: u32,
    },
    End,
}
