//! What is reduced, and how.

/// A kind of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// 32-bit integer, signed.
    Int32,
    /// 64-bit integer, signed.
    Int64,
    /// 64-bit integer, unsigned.
    Uint64,
    /// Single precision.
    Float,
    /// Double precision.
    Double,
}

/// What two numbers are made one by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Their sum; integers wrap around.
    Sum,
    /// Their product; integers wrap around.
    Product,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// Bits in both; integers only.
    And,
    /// Bits in either; integers only.
    Or,
    /// Bits in one of them; integers only.
    Xor,
}

impl Number {
    /// Bytes of one.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Int32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double => 8,
        }
    }

    /// Whether the operation means anything for it.
    #[must_use]
    pub fn takes(self, operation: Operation) -> bool {
        let bits = matches!(operation, Operation::And | Operation::Or | Operation::Xor);
        !(bits && matches!(self, Self::Float | Self::Double))
    }
}

macro_rules! each {
    ($kind:ty, $into:ident, $with:ident, $operation:expr) => {{
        const BYTES: usize = size_of::<$kind>();
        let operation: fn($kind, $kind) -> $kind = $operation;
        each!($kind, BYTES, $into, $with, operation)
    }};
    ($kind:ty, $bytes:ident, $into:ident, $with:ident, $operation:ident) => {
        for (into, with) in
            $into.as_chunks_mut::<$bytes>().0.iter_mut().zip($with.as_chunks::<$bytes>().0)
        {
            *into = $operation(<$kind>::from_ne_bytes(*into), <$kind>::from_ne_bytes(*with))
                .to_ne_bytes();
        }
    };
}

macro_rules! whole {
    ($kind:ty, $operation:ident, $into:ident, $with:ident) => {
        match $operation {
            Operation::Sum => each!($kind, $into, $with, |a, b| a.wrapping_add(b)),
            Operation::Product => each!($kind, $into, $with, |a, b| a.wrapping_mul(b)),
            Operation::Min => each!($kind, $into, $with, |a, b| a.min(b)),
            Operation::Max => each!($kind, $into, $with, |a, b| a.max(b)),
            Operation::And => each!($kind, $into, $with, |a, b| a & b),
            Operation::Or => each!($kind, $into, $with, |a, b| a | b),
            Operation::Xor => each!($kind, $into, $with, |a, b| a ^ b),
        }
    };
}

macro_rules! floating {
    ($kind:ty, $operation:ident, $into:ident, $with:ident) => {
        match $operation {
            Operation::Product => each!($kind, $into, $with, |a, b| a * b),
            Operation::Min => each!($kind, $into, $with, |a, b| a.min(b)),
            Operation::Max => each!($kind, $into, $with, |a, b| a.max(b)),
            // Bits of them are refused before.
            _ => each!($kind, $into, $with, |a, b| a + b),
        }
    };
}

/// Makes each number of `into` one with that of `with`.
pub(crate) fn combine(into: &mut [u8], with: &[u8], number: Number, operation: Operation) {
    match number {
        Number::Int32 => whole!(i32, operation, into, with),
        Number::Int64 => whole!(i64, operation, into, with),
        Number::Uint64 => whole!(u64, operation, into, with),
        Number::Float => floating!(f32, operation, into, with),
        Number::Double => floating!(f64, operation, into, with),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_made_one() {
        let mut into: Vec<u8> =
            [5_i64, -7, i64::MAX].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let with: Vec<u8> = [3_i64, 9, 1].iter().flat_map(|n| n.to_ne_bytes()).collect();
        combine(&mut into, &with, Number::Int64, Operation::Sum);
        let words: Vec<i64> =
            into.as_chunks::<8>().0.iter().map(|b| i64::from_ne_bytes(*b)).collect();
        assert_eq!(words, [8, 2, i64::MIN]);
        combine(&mut into, &with, Number::Uint64, Operation::Min);
        let words: Vec<i64> =
            into.as_chunks::<8>().0.iter().map(|b| i64::from_ne_bytes(*b)).collect();
        assert_eq!(words, [3, 2, 1]);
        let mut into = 1.5_f32.to_ne_bytes();
        combine(&mut into, &2.0_f32.to_ne_bytes(), Number::Float, Operation::Product);
        assert_eq!(f32::from_ne_bytes(into), 3.0);
        assert!(!Number::Double.takes(Operation::Xor));
    }
}
