//! Operators: which ones there are, and PostgreSQL's rules for choosing among them (manual,
//! "Operator Type Resolution" and "Function Type Resolution").

use rowlock_model::DbError;

use super::{Lowering, Typed, error, unsupported};
use crate::plan::expr::function::{Arithmetic, Bits};
use crate::plan::expr::{Compare, Expr, Function, HostFunction};
use crate::plan::routine::RoutineId;
use crate::plan::types::Type;
use crate::plan::types::coerce::{Category, Context, can_coerce, category, is_preferred};

/// What a chosen operator or function becomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Build {
    /// A comparison.
    Compare(Compare),
    /// A pure function.
    Pure(Function),
    /// A pure function with its arguments exchanged.
    Swapped(Function),
    /// `LIKE`: ignoring case, negated.
    Like(bool, bool),
    /// `~`: ignoring case, negated.
    Matches(bool, bool),
    /// A stateful function.
    Host(HostFunction),
    /// A function that a user has defined.
    Routine(RoutineId),
    /// A function that exists and is not modelled.
    Refused,
}

/// An operator or function with its argument types.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) args: Vec<Type>,
    pub(super) result: Type,
    pub(super) build: Build,
}

/// A candidate.
pub(super) fn candidate(args: &[Type], result: Type, build: Build) -> Candidate {
    Candidate {
        args: args.to_vec(),
        result,
        build,
    }
}

/// Types that are compared with themselves.
const COMPARABLE: [Type; 21] = [
    Type::Bool,
    Type::Int2,
    Type::Int4,
    Type::Int8,
    Type::Float4,
    Type::Float8,
    Type::Numeric,
    Type::Text,
    Type::Char,
    Type::Name,
    Type::Bytea,
    Type::Date,
    Type::Time,
    Type::Timestamp,
    Type::TimestampTz,
    Type::Interval,
    Type::Uuid,
    Type::Oid,
    Type::Xid8,
    Type::Tid,
    Type::Jsonb,
];

/// `text[]`.
const TEXTS: Type = Type::Array(&Type::Text);

const INTEGERS: [Type; 3] = [Type::Int2, Type::Int4, Type::Int8];
const FLOATS: [Type; 2] = [Type::Float4, Type::Float8];

/// The comparison that an operator's symbol means.
pub(super) fn comparison_of(symbol: &str) -> Option<Compare> {
    Some(match symbol {
        "=" => Compare::Eq,
        "<>" => Compare::Ne,
        "<" => Compare::Lt,
        "<=" => Compare::Le,
        ">" => Compare::Gt,
        ">=" => Compare::Ge,
        _ => return None,
    })
}

fn comparisons(op: Compare) -> Vec<Candidate> {
    let build = Build::Compare(op);
    let mut list: Vec<Candidate> = COMPARABLE
        .iter()
        .map(|t| candidate(&[*t, *t], Type::Bool, build))
        .collect();
    for group in [&INTEGERS[..], &FLOATS[..]] {
        for a in group {
            for b in group.iter().filter(|b| *b != a) {
                list.push(candidate(&[*a, *b], Type::Bool, build));
            }
        }
    }
    list.push(candidate(&[Type::Name, Type::Text], Type::Bool, build));
    list.push(candidate(&[Type::Text, Type::Name], Type::Bool, build));
    if matches!(op, Compare::Eq | Compare::Ne) {
        list.push(candidate(&[Type::Xid, Type::Xid], Type::Bool, build));
        list.push(candidate(&[Type::Xid, Type::Int4], Type::Bool, build));
    }
    list
}

fn arithmetic(op: Arithmetic) -> Vec<Candidate> {
    use Type::{
        Date, Float4, Float8, Int2, Int4, Int8, Interval, Numeric, Time, Timestamp, TimestampTz,
    };
    let pure = |f| Build::Pure(f);
    let number = |a: Type, b: Type, result: Type| {
        candidate(&[a, b], result, pure(Function::Arithmetic(op, result)))
    };
    let mut list = vec![
        number(Int2, Int2, Int2),
        number(Int4, Int4, Int4),
        number(Int8, Int8, Int8),
        number(Numeric, Numeric, Numeric),
    ];
    if op == Arithmetic::Modulo {
        return list;
    }
    for (a, b, result) in [
        (Int2, Int4, Int4),
        (Int4, Int2, Int4),
        (Int2, Int8, Int8),
        (Int8, Int2, Int8),
        (Int4, Int8, Int8),
        (Int8, Int4, Int8),
        (Float4, Float4, Float4),
        (Float8, Float8, Float8),
        (Float4, Float8, Float8),
        (Float8, Float4, Float8),
    ] {
        list.push(number(a, b, result));
    }
    let mut add =
        |a: Type, b: Type, result: Type, build| list.push(candidate(&[a, b], result, build));
    match op {
        Arithmetic::Add => {
            for t in [Timestamp, TimestampTz] {
                add(t, Interval, t, pure(Function::TimestampPlusInterval));
                add(
                    Interval,
                    t,
                    t,
                    Build::Swapped(Function::TimestampPlusInterval),
                );
            }
            add(
                Interval,
                Interval,
                Interval,
                pure(Function::IntervalArithmetic(op)),
            );
            add(Date, Int4, Date, pure(Function::DatePlusDays));
            add(Int4, Date, Date, Build::Swapped(Function::DatePlusDays));
            add(
                Date,
                Interval,
                Timestamp,
                pure(Function::TimestampPlusInterval),
            );
            add(
                Interval,
                Date,
                Timestamp,
                Build::Swapped(Function::TimestampPlusInterval),
            );
            add(Date, Time, Timestamp, pure(Function::DatePlusTime));
            add(
                Time,
                Date,
                Timestamp,
                Build::Swapped(Function::DatePlusTime),
            );
            add(Time, Interval, Time, pure(Function::TimePlusInterval));
            add(
                Interval,
                Time,
                Time,
                Build::Swapped(Function::TimePlusInterval),
            );
        }
        Arithmetic::Subtract => {
            for t in [Timestamp, TimestampTz] {
                add(t, Interval, t, pure(Function::TimestampMinusInterval));
                add(t, t, Interval, pure(Function::TimestampMinusTimestamp));
            }
            add(
                Interval,
                Interval,
                Interval,
                pure(Function::IntervalArithmetic(op)),
            );
            add(Date, Int4, Date, pure(Function::DateMinusDays));
            add(Date, Date, Int4, pure(Function::DateMinusDate));
            add(
                Date,
                Interval,
                Timestamp,
                pure(Function::TimestampMinusInterval),
            );
            add(Time, Interval, Time, pure(Function::TimeMinusInterval));
            add(Time, Time, Interval, pure(Function::TimeMinusTime));
        }
        Arithmetic::Multiply => {
            add(Interval, Float8, Interval, pure(Function::IntervalTimes));
            add(
                Float8,
                Interval,
                Interval,
                Build::Swapped(Function::IntervalTimes),
            );
        }
        Arithmetic::Divide => add(Interval, Float8, Interval, pure(Function::IntervalDivide)),
        Arithmetic::Modulo => {}
    }
    list
}

fn bit_operators(op: Bits) -> Vec<Candidate> {
    let shift = matches!(op, Bits::Left | Bits::Right);
    INTEGERS
        .iter()
        .map(|t| {
            let right = if shift { Type::Int4 } else { *t };
            candidate(&[*t, right], *t, Build::Pure(Function::Bits(op, *t)))
        })
        .collect()
}

/// The operators of two operands that a symbol can mean, polymorphic ones left out.
fn binary_operators(symbol: &str) -> Vec<Candidate> {
    use Type::{Bytea, Char, Float8, Int4, Json, Jsonb, Name, Text};
    if let Some(op) = comparison_of(symbol) {
        return comparisons(op);
    }
    let one = |args: &[Type], result, function| candidate(args, result, Build::Pure(function));
    match symbol {
        "+" => arithmetic(Arithmetic::Add),
        "-" => {
            let mut list = arithmetic(Arithmetic::Subtract);
            list.push(one(&[Jsonb, Text], Jsonb, Function::JsonbDeleteKeys));
            list.push(one(&[Jsonb, TEXTS], Jsonb, Function::JsonbDeleteKeys));
            list.push(one(&[Jsonb, Int4], Jsonb, Function::JsonbDeleteElement));
            list
        }
        "*" => arithmetic(Arithmetic::Multiply),
        "/" => arithmetic(Arithmetic::Divide),
        "%" => arithmetic(Arithmetic::Modulo),
        "^" => vec![
            one(&[Float8, Float8], Float8, Function::Power),
            candidate(
                &[Type::Numeric, Type::Numeric],
                Type::Numeric,
                Build::Refused,
            ),
        ],
        "&" => bit_operators(Bits::And),
        "|" => bit_operators(Bits::Or),
        "#" => bit_operators(Bits::Xor),
        "<<" => bit_operators(Bits::Left),
        ">>" => bit_operators(Bits::Right),
        "||" => vec![
            one(&[Text, Text], Text, Function::Concat),
            one(&[Bytea, Bytea], Bytea, Function::BytesConcat),
            one(&[Jsonb, Jsonb], Jsonb, Function::JsonbConcat),
        ],
        "~~" | "!~~" | "~~*" | "!~~*" => {
            let build = Build::Like(symbol.ends_with('*'), symbol.starts_with('!'));
            [Text, Char, Name]
                .iter()
                .map(|t| candidate(&[*t, Text], Type::Bool, build))
                .collect()
        }
        "^@" => vec![one(&[Text, Text], Type::Bool, Function::StartsWith)],
        "->" | "->>" => {
            let text = symbol == "->>";
            let mut list = Vec::new();
            for ty in [Json, Jsonb] {
                let result = if text { Text } else { ty };
                list.push(one(&[ty, Text], result, Function::JsonField(text, ty)));
                list.push(one(&[ty, Int4], result, Function::JsonElement(text, ty)));
            }
            list
        }
        "@>" => vec![one(&[Jsonb, Jsonb], Type::Bool, Function::JsonbContains)],
        "<@" => vec![candidate(
            &[Jsonb, Jsonb],
            Type::Bool,
            Build::Swapped(Function::JsonbContains),
        )],
        "?" => vec![one(&[Jsonb, Text], Type::Bool, Function::JsonbHasKey)],
        "?|" => vec![one(&[Jsonb, TEXTS], Type::Bool, Function::JsonbHasAny)],
        "?&" => vec![one(&[Jsonb, TEXTS], Type::Bool, Function::JsonbHasAll)],
        "#-" => vec![one(&[Jsonb, TEXTS], Jsonb, Function::JsonbDeletePath)],
        "#>" | "#>>" => {
            let text = symbol == "#>>";
            [Json, Jsonb]
                .iter()
                .map(|ty| {
                    let result = if text { Text } else { *ty };
                    one(&[*ty, TEXTS], result, Function::JsonPath(text, *ty))
                })
                .collect()
        }
        "~" | "~*" | "!~" | "!~*" => {
            let build = Build::Matches(symbol.ends_with('*'), symbol.starts_with('!'));
            [Text, Char, Name]
                .iter()
                .map(|t| candidate(&[*t, Text], Type::Bool, build))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The choice among candidates for arguments of these types. `Err(true)` means that several fit.
pub(super) fn choose(candidates: &[Candidate], types: &[Type]) -> Result<Candidate, bool> {
    let exact = |wanted: &[Type]| candidates.iter().find(|c| c.args == wanted).cloned();
    if let Some(found) = exact(types) {
        return Ok(found);
    }
    // One open operand of an operator is first taken for the type of the other.
    if let [a, b] = types
        && (*a == Type::Unknown) != (*b == Type::Unknown)
    {
        let known = if *a == Type::Unknown { *b } else { *a };
        if let Some(found) = exact(&[known, known]) {
            return Ok(found);
        }
    }
    let mut left: Vec<&Candidate> = candidates
        .iter()
        .filter(|c| {
            c.args.len() == types.len()
                && c.args
                    .iter()
                    .zip(types)
                    .all(|(want, have)| can_coerce(*have, *want, Context::Implicit))
        })
        .collect();
    let only = |left: &[&Candidate]| match left {
        [one] => Some((*one).clone()),
        _ => None,
    };
    if left.is_empty() {
        return Err(false);
    }
    if let Some(found) = only(&left) {
        return Ok(found);
    }
    keep_best(&mut left, |c| {
        count(c, types, |want, have| have != Type::Unknown && want == have)
    });
    if let Some(found) = only(&left) {
        return Ok(found);
    }
    keep_best(&mut left, |c| {
        count(c, types, |want, have| {
            have != Type::Unknown
                && (want == have || (is_preferred(want) && category(want) == category(have)))
        })
    });
    if let Some(found) = only(&left) {
        return Ok(found);
    }
    resolve_open(&mut left, types);
    if let Some(found) = only(&left) {
        return Ok(found);
    }
    // Known arguments all of one type: take the open ones for it too.
    let mut known = types.iter().filter(|t| **t != Type::Unknown);
    if let Some(first) = known.next()
        && known.all(|t| t == first)
    {
        let mut fitting = left.iter().filter(|c| {
            c.args
                .iter()
                .all(|want| can_coerce(*first, *want, Context::Implicit))
        });
        if let (Some(one), None) = (fitting.next(), fitting.next()) {
            return Ok((*one).clone());
        }
    }
    Err(true)
}

fn count(c: &Candidate, types: &[Type], fits: impl Fn(Type, Type) -> bool) -> usize {
    c.args
        .iter()
        .zip(types)
        .filter(|(want, have)| fits(**want, **have))
        .count()
}

fn keep_best(left: &mut Vec<&Candidate>, score: impl Fn(&Candidate) -> usize) {
    let best = left.iter().map(|c| score(c)).max().unwrap_or(0);
    left.retain(|c| score(c) == best);
}

/// Open arguments: strings if any candidate takes a string there, otherwise the category on which
/// all candidates agree; and within it the preferred type.
fn resolve_open(left: &mut Vec<&Candidate>, types: &[Type]) {
    let mut wanted: Vec<Option<(Category, bool)>> = Vec::new();
    for (i, ty) in types.iter().enumerate() {
        if *ty != Type::Unknown {
            wanted.push(None);
            continue;
        }
        let categories: Vec<Category> = left.iter().map(|c| category(c.args[i])).collect();
        let chosen = if categories.contains(&Category::String) {
            Category::String
        } else if categories.windows(2).all(|w| w[0] == w[1]) {
            categories[0]
        } else {
            return;
        };
        let preferred = left
            .iter()
            .any(|c| category(c.args[i]) == chosen && is_preferred(c.args[i]));
        wanted.push(Some((chosen, preferred)));
    }
    let fitting: Vec<&Candidate> = left
        .iter()
        .filter(|c| {
            c.args.iter().zip(&wanted).all(|(arg, want)| match want {
                None => true,
                Some((chosen, preferred)) => {
                    category(*arg) == *chosen && (!preferred || is_preferred(*arg))
                }
            })
        })
        .copied()
        .collect();
    if !fitting.is_empty() {
        *left = fitting;
    }
}

impl Lowering<'_> {
    /// `left symbol right`, with the operator at byte `at`.
    pub(super) fn operator(
        &mut self,
        symbol: &str,
        mut left: Typed,
        mut right: Typed,
        at: usize,
    ) -> Result<Typed, DbError> {
        self.known_param(&mut left);
        self.known_param(&mut right);
        if let Some(special) = self.polymorphic(symbol, &left, &right, at)? {
            return Ok(special);
        }
        let candidates = binary_operators(symbol);
        match choose(&candidates, &[left.ty, right.ty]) {
            Ok(chosen) => self.build(&chosen, vec![left, right], at),
            Err(ambiguous) => {
                let (a, b) = (self.type_name(left.ty), self.type_name(right.ty));
                if ambiguous {
                    return error(
                        "42725",
                        format!("operator is not unique: {a} {symbol} {b}"),
                        at,
                    );
                }
                if super::server::has_operator(symbol, &a, &b) {
                    return unsupported(format!("the operator {a} {symbol} {b}"), at);
                }
                error(
                    "42883",
                    format!("operator does not exist: {a} {symbol} {b}"),
                    at,
                )
            }
        }
    }

    /// Operators over arrays and enumerations, and `||` of text with anything.
    fn polymorphic(
        &mut self,
        symbol: &str,
        left: &Typed,
        right: &Typed,
        at: usize,
    ) -> Result<Option<Typed>, DbError> {
        let pair = [left.ty, right.ty];
        let array = pair.iter().find(|t| matches!(t, Type::Array(_))).copied();
        let enumeration = pair.iter().find(|t| matches!(t, Type::Enum(_))).copied();
        let both = |ty: Type, result, build| Candidate {
            args: vec![ty, ty],
            result,
            build,
        };
        let fits = |ty: Type| pair.iter().all(|t| *t == ty || *t == Type::Unknown);
        if let Some(op) = comparison_of(symbol) {
            for ty in array.into_iter().chain(enumeration) {
                if fits(ty) {
                    let chosen = both(ty, Type::Bool, Build::Compare(op));
                    return self
                        .build(&chosen, vec![left.clone(), right.clone()], at)
                        .map(Some);
                }
            }
        }
        let array_function = match symbol {
            "@>" => Some(Build::Pure(Function::ArrayContains)),
            "<@" => Some(Build::Swapped(Function::ArrayContains)),
            "&&" => Some(Build::Pure(Function::ArrayOverlaps)),
            _ => None,
        };
        if let (Some(build), Some(ty)) = (array_function, array)
            && fits(ty)
        {
            let chosen = both(ty, Type::Bool, build);
            return self
                .build(&chosen, vec![left.clone(), right.clone()], at)
                .map(Some);
        }
        if symbol == "||" {
            return self.concatenation(left, right, array, at);
        }
        Ok(None)
    }

    /// `||`: arrays with arrays and elements; text with any type that is not an array.
    fn concatenation(
        &mut self,
        left: &Typed,
        right: &Typed,
        array: Option<Type>,
        at: usize,
    ) -> Result<Option<Typed>, DbError> {
        let args = || vec![left.clone(), right.clone()];
        if let Some(array) = array {
            let Type::Array(element) = array else {
                return Ok(None);
            };
            let is_array = |t: Type| t == array || t == Type::Unknown;
            let (types, function) = if is_array(left.ty) && is_array(right.ty) {
                ([array, array], Function::ArrayConcat)
            } else if left.ty == array {
                ([array, *element], Function::ArrayAppend)
            } else {
                ([*element, array], Function::ArrayPrepend)
            };
            let chosen = candidate(&types, array, Build::Pure(function));
            return self.build(&chosen, args(), at).map(Some);
        }
        let string = |t: Type| category(t) == Category::String;
        let other = |t: Type| !string(t) && t != Type::Unknown;
        let own = |t: Type| matches!(t, Type::Bytea | Type::Jsonb);
        if own(left.ty) && own(right.ty) {
            return Ok(None);
        }
        let mixed = (string(left.ty) && other(right.ty))
            || (other(left.ty) && string(right.ty))
            || (left.ty == Type::Unknown && other(right.ty) && !own(right.ty))
            || (other(left.ty) && !own(left.ty) && right.ty == Type::Unknown);
        if !mixed {
            return Ok(None);
        }
        let mut texts = Vec::with_capacity(2);
        for typed in args() {
            let (ty, place) = (typed.ty, typed.at);
            match self.coerce(typed, Type::Text, Context::Explicit)? {
                Some(text) => texts.push(text.expr),
                None => return unsupported(format!("{} as text", ty.name()), place),
            }
        }
        Ok(Some(Typed::new(
            Expr::Call {
                function: Function::Concat,
                args: texts,
            },
            Type::Text,
            at,
        )))
    }

    /// The expression of a chosen candidate.
    pub(super) fn build(
        &mut self,
        chosen: &Candidate,
        args: Vec<Typed>,
        at: usize,
    ) -> Result<Typed, DbError> {
        let mut exprs = Vec::with_capacity(args.len());
        for (arg, ty) in args.into_iter().zip(&chosen.args) {
            let place = arg.at;
            match self.coerce(arg, *ty, Context::Implicit)? {
                Some(typed) => exprs.push(typed.expr),
                None => return unsupported(format!("a conversion to {}", ty.name()), place),
            }
        }
        let expr = match chosen.build {
            Build::Compare(op) => {
                let by = self.comparison(chosen.args[0]);
                let right = exprs.pop().unwrap_or(Expr::Param(0));
                let left = exprs.pop().unwrap_or(Expr::Param(0));
                Expr::Compare {
                    op,
                    by,
                    sides: Box::new((left, right)),
                }
            }
            Build::Pure(function) => Expr::Call {
                function,
                args: exprs,
            },
            Build::Swapped(function) => {
                exprs.reverse();
                Expr::Call {
                    function,
                    args: exprs,
                }
            }
            Build::Like(fold, negated) => {
                let like = Expr::Call {
                    function: Function::Like(fold),
                    args: exprs,
                };
                if negated {
                    Expr::Not(Box::new(like))
                } else {
                    like
                }
            }
            Build::Matches(fold, negated) => {
                let matches = Expr::Call {
                    function: Function::Matches { fold },
                    args: exprs,
                };
                if negated {
                    Expr::Not(Box::new(matches))
                } else {
                    matches
                }
            }
            Build::Host(function) => Expr::Host {
                function,
                args: exprs,
            },
            Build::Routine(id) => {
                let (routine, types, args) = self.routine_call(id, &chosen.args, exprs, at)?;
                if matches!(routine.returns, crate::plan::routine::Returns::Rows(_)) {
                    return unsupported("a set-returning function inside an expression", at);
                }
                Expr::Routine {
                    routine,
                    types: types.into(),
                    args,
                }
            }
            Build::Refused => return unsupported("this function of these types", at),
        };
        Ok(Typed::new(expr, chosen.result, at))
    }

    /// A comparison of two expressions, for constructs that imply one (`IN`, `CASE`, `NULLIF`).
    ///
    /// # Errors
    /// 42883.
    pub(super) fn compare(
        &mut self,
        op: Compare,
        left: Typed,
        right: Typed,
        at: usize,
    ) -> Result<(crate::plan::expr::Comparison, Expr, Expr), DbError> {
        let typed = self.operator(op.symbol(), left, right, at)?;
        match typed.expr {
            Expr::Compare { by, sides, .. } => {
                let (left, right) = *sides;
                Ok((by, left, right))
            }
            _ => unsupported("this comparison", at),
        }
    }
}
