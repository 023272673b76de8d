//! Arithmetic of numbers with PostgreSQL's ranges, scales and roundings.

use rowlock_model::DbError;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::Type;

/// The number of significant digits that a quotient has at least.
const MIN_SIGNIFICANT: i32 = 16;

/// A number is wider than 28 digits, which is all that is modelled of `numeric`.
pub fn too_wide() -> DbError {
    DbError::unsupported("numeric values of more than 28 digits", None)
}

/// 22003 for an integer type.
pub fn out_of_range(ty: Type) -> DbError {
    DbError::postgres("22003", format!("{} out of range", ty.name()))
}

/// 22012.
pub fn division_by_zero() -> DbError {
    DbError::postgres("22012", "division by zero")
}

/// Whether an integer fits its type.
pub fn in_range(value: i64, ty: Type) -> bool {
    match ty {
        Type::Int2 => i16::try_from(value).is_ok(),
        Type::Int4 => i32::try_from(value).is_ok(),
        Type::Oid | Type::Xid | Type::RegClass => u32::try_from(value).is_ok(),
        _ => true,
    }
}

/// An integer checked against its type.
///
/// # Errors
/// 22003.
pub fn checked(value: Option<i64>, ty: Type) -> Result<i64, DbError> {
    value
        .filter(|v| in_range(*v, ty))
        .ok_or_else(|| out_of_range(ty))
}

/// Rounds to an integer, halves away from zero.
pub fn round_decimal(value: &Decimal, scale: u32) -> Decimal {
    let mut rounded =
        value.round_dp_with_strategy(scale, rust_decimal::RoundingStrategy::MidpointAwayFromZero);
    rounded.rescale(scale.min(28));
    rounded
}

/// `numeric` to an integer type: halves away from zero.
///
/// # Errors
/// 22003.
pub fn decimal_to_int(value: &Decimal, ty: Type) -> Result<i64, DbError> {
    checked(round_decimal(value, 0).to_i64(), ty)
}

/// A float to an integer type: halves to even.
///
/// # Errors
/// 22003.
pub fn float_to_int(value: f64, ty: Type) -> Result<i64, DbError> {
    let rounded = value.round_ties_even();
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    // NaN is in no range.
    if !(-LIMIT..LIMIT).contains(&rounded) {
        return Err(out_of_range(ty));
    }
    checked(Some(rounded as i64), ty)
}

/// A float to `numeric`, through 15 significant digits.
///
/// # Errors
/// Infinite, not a number, or too wide.
pub fn float_to_decimal(value: f64) -> Result<Decimal, DbError> {
    if !value.is_finite() {
        return Err(DbError::unsupported("infinite or NaN numeric values", None));
    }
    let text = format!("{value:.14e}");
    let parsed = Decimal::from_scientific(&text).map_err(|_| too_wide())?;
    Ok(parsed.normalize())
}

/// The quotient, with the scale that PostgreSQL selects.
///
/// # Errors
/// 22012, or too wide.
pub fn divide(a: &Decimal, b: &Decimal) -> Result<Decimal, DbError> {
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let (weight_a, first_a) = leading(a);
    let (weight_b, first_b) = leading(b);
    let mut weight = weight_a - weight_b;
    if first_a <= first_b {
        weight -= 1;
    }
    let scale = (MIN_SIGNIFICANT - weight * 4)
        .max(a.scale() as i32)
        .max(b.scale() as i32)
        .max(0);
    quotient(a, b, scale)
}

/// The weight (position of the leading digit in base 10000) and that digit's value.
fn leading(value: &Decimal) -> (i32, u32) {
    let mantissa = value.mantissa().unsigned_abs();
    if mantissa == 0 {
        return (0, 0);
    }
    // Aligned to a whole number of base-10000 digits after the point.
    let pad = (4 - value.scale() % 4) % 4;
    let groups_after = (value.scale() + pad) / 4;
    let digits = format!("{mantissa}{}", "0".repeat(pad as usize));
    let groups = digits.len().div_ceil(4);
    let first_len = digits.len() - (groups - 1) * 4;
    let first = digits[..first_len].parse().unwrap_or(0);
    (groups as i32 - 1 - groups_after as i32, first)
}

/// Long division, one decimal digit at a time, rounded half away from zero at `scale`.
fn quotient(a: &Decimal, b: &Decimal, scale: i32) -> Result<Decimal, DbError> {
    let scale = scale.min(28);
    let (ma, mb) = (a.mantissa().unsigned_abs(), b.mantissa().unsigned_abs());
    // a / b = (ma / mb) * 10^(sb - sa); we want floor(that * 10^(scale + 1)).
    let shift = scale + 1 + b.scale() as i32 - a.scale() as i32;
    let mut whole = ma / mb;
    let mut rest = ma % mb;
    for _ in 0..shift.max(0) {
        rest *= 10;
        whole = whole
            .checked_mul(10)
            .and_then(|w| w.checked_add(rest / mb))
            .ok_or_else(too_wide)?;
        rest %= mb;
    }
    for _ in 0..(-shift).max(0) {
        whole /= 10;
    }
    let rounded = whole / 10 + u128::from(whole % 10 >= 5);
    let signed = i128::try_from(rounded).map_err(|_| too_wide())?;
    let negative = a.is_sign_negative() != b.is_sign_negative();
    Decimal::try_from_i128_with_scale(if negative { -signed } else { signed }, scale as u32)
        .map_err(|_| too_wide())
}

/// The product; its scale is the sum of the scales.
///
/// # Errors
/// Too wide.
pub fn multiply(a: &Decimal, b: &Decimal) -> Result<Decimal, DbError> {
    let mantissa = a
        .mantissa()
        .checked_mul(b.mantissa())
        .ok_or_else(too_wide)?;
    Decimal::try_from_i128_with_scale(mantissa, a.scale() + b.scale()).map_err(|_| too_wide())
}

/// Sum or difference; the scale is the larger one.
///
/// # Errors
/// Too wide.
pub fn add(a: &Decimal, b: &Decimal) -> Result<Decimal, DbError> {
    let scale = a.scale().max(b.scale());
    let at = |d: &Decimal| 10i128.pow(scale - d.scale()).checked_mul(d.mantissa());
    let mantissa = at(a)
        .zip(at(b))
        .and_then(|(x, y)| x.checked_add(y))
        .ok_or_else(too_wide)?;
    Decimal::try_from_i128_with_scale(mantissa, scale).map_err(|_| too_wide())
}

/// The remainder, with the sign of the dividend.
///
/// # Errors
/// 22012, or too wide.
pub fn remainder(a: &Decimal, b: &Decimal) -> Result<Decimal, DbError> {
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let scale = a.scale().max(b.scale());
    let at = |d: &Decimal| 10i128.pow(scale - d.scale()).checked_mul(d.mantissa());
    let (x, y) = at(a).zip(at(b)).ok_or_else(too_wide)?;
    Decimal::try_from_i128_with_scale(x % y, scale).map_err(|_| too_wide())
}
