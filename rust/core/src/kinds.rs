//! The names of the operations. What each one means is in `eval/`.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_meta])* $variant,)* }

        impl $name {
            /// Every kind.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
        }
    };
}

kinds! {
    /// An operation of one operand. The result has the operand's type, save [`UnaryKind::IsFinite`].
    UnaryKind {
        /// `-x`; wraps on integers.
        Neg,
        /// `|x|`; the least signed integer stays as it is.
        Abs,
        /// -1, 0 or 1; a NaN and a signed zero stay as they are.
        Sign,
        /// Every bit flipped; logical on `bool`.
        Not,
        /// `e^x`.
        Exp,
        /// `2^x`.
        Exp2,
        /// `e^x - 1`.
        Expm1,
        /// Natural logarithm.
        Log,
        /// Logarithm to base two.
        Log2,
        /// `log(1 + x)`.
        Log1p,
        /// Square root.
        Sqrt,
        /// `1 / sqrt(x)`.
        Rsqrt,
        /// Cube root.
        Cbrt,
        /// Sine.
        Sin,
        /// Cosine.
        Cos,
        /// Tangent.
        Tan,
        /// Inverse sine.
        Asin,
        /// Inverse cosine.
        Acos,
        /// Inverse tangent.
        Atan,
        /// Hyperbolic sine.
        Sinh,
        /// Hyperbolic cosine.
        Cosh,
        /// Hyperbolic tangent.
        Tanh,
        /// Inverse hyperbolic sine.
        Asinh,
        /// Inverse hyperbolic cosine.
        Acosh,
        /// Inverse hyperbolic tangent.
        Atanh,
        /// `1 / (1 + e^-x)`.
        Logistic,
        /// Error function.
        Erf,
        /// `1 - erf(x)` without the cancellation.
        Erfc,
        /// Inverse of [`UnaryKind::Erf`].
        ErfInv,
        /// Logarithm of the absolute value of the gamma function.
        Lgamma,
        /// Derivative of [`UnaryKind::Lgamma`].
        Digamma,
        /// Largest integer not above `x`.
        Floor,
        /// Smallest integer not below `x`.
        Ceil,
        /// Nearest integer, ties to the even one.
        RoundHalfEven,
        /// Nearest integer, ties away from zero.
        RoundHalfAway,
        /// Whether `x` is neither infinite nor NaN; the result is `bool`.
        IsFinite,
        /// `x * x`.
        Square,
        /// `1 - x * x`.
        OneMinusSquare,
        /// How many bits are set.
        PopulationCount,
        /// How many leading bits are zero.
        Clz,
    }
}

kinds! {
    /// An operation of two operands of one type, which is also the result's.
    BinaryKind {
        /// Sum; `or` on `bool`.
        Add,
        /// Difference.
        Sub,
        /// Product; `and` on `bool`.
        Mul,
        /// Quotient, truncated on integers. An integer divided by zero gives all ones.
        Div,
        /// Remainder with the dividend's sign. An integer modulo zero gives the dividend.
        Rem,
        /// The larger; NaN if either is.
        Max,
        /// The smaller; NaN if either is.
        Min,
        /// Power.
        Pow,
        /// Angle of the point `(b, a)`.
        Atan2,
        /// Bitwise and.
        And,
        /// Bitwise or.
        Or,
        /// Bitwise exclusive or.
        Xor,
        /// Shift to the left; zero where the amount reaches the width.
        Shl,
        /// Shift to the right filling with the sign; all sign where the amount reaches the width.
        ShrArithmetic,
        /// Shift to the right filling with zeros; zero where the amount reaches the width.
        ShrLogical,
        /// The number next to `a` on the way to `b`.
        Nextafter,
        /// `a` with the sign of `b`.
        CopySign,
    }
}

kinds! {
    /// A comparison; its result is `bool`.
    CompareKind {
        /// Equal; a NaN equals nothing.
        Eq,
        /// Not equal.
        Ne,
        /// Less.
        Lt,
        /// Less or equal.
        Le,
        /// Greater.
        Gt,
        /// Greater or equal.
        Ge,
        /// Equal in the total order `-NaN < -inf < … < -0 < 0 < … < inf < NaN`.
        EqTo,
        /// Less or equal in the total order.
        LeTo,
        /// Less in the total order.
        LtTo,
    }
}

kinds! {
    /// A reduction over axes.
    ReduceKind {
        /// Sum; `or` on `bool`.
        Sum,
        /// Product; `and` on `bool`.
        Prod,
        /// The largest; NaN if any is.
        Max,
        /// The smallest; NaN if any is.
        Min,
        /// Bitwise and.
        And,
        /// Bitwise or.
        Or,
        /// Bitwise exclusive or.
        Xor,
        /// Index of the first largest, or of the first NaN.
        ArgMax,
        /// Index of the first smallest, or of the first NaN.
        ArgMin,
    }
}

kinds! {
    /// A running reduction along one axis.
    CumulativeKind {
        /// Running sum.
        Sum,
        /// Running product.
        Prod,
        /// Running maximum.
        Max,
        /// Running minimum.
        Min,
        /// Running `log(sum(exp(x)))`.
        LogSumExp,
    }
}
