//! Steps of one kind as the arguments of the function that takes them all: see `schema/v1/many.sql`.

use crate::value::Value;

/// The arguments. The first value of each step is its name.
pub(crate) fn columns(steps: &[&[Value]]) -> Vec<Value> {
    let mut columns = vec![numbers(steps.len())];
    let width = steps.first().map_or(0, |step| step.len());
    for at in 0..width {
        let column: Vec<&Value> = steps.iter().filter_map(|step| step.get(at)).collect();
        if at == 0 {
            names(&column, &mut columns);
        } else {
            push(&column, &mut columns);
        }
    }
    columns
}

fn numbers(count: usize) -> Value {
    Value::ManyInt(Some((1..=whole(count)).collect()))
}

/// What all names begin with, and the rest of each.
fn names(column: &[&Value], columns: &mut Vec<Value>) {
    let first = column.first().map_or(&[][..], |value| value.as_bytes());
    let common = |value: &&Value| first.iter().zip(value.as_bytes()).take_while(|(a, b)| a == b).count();
    let shared = column.iter().map(common).min().unwrap_or(0);
    let (prefix, _) = first.split_at_checked(shared).unwrap_or_default();
    columns.push(Value::bytes(prefix));
    columns.extend(list(column.iter().map(|value| value.as_bytes().get(shared..).unwrap_or_default())));
}

fn push(column: &[&Value], columns: &mut Vec<Value>) {
    let are_equal = column.iter().all(|value| column.first() == Some(value));
    let count = if are_equal { 1 } else { column.len() };
    let distinct = column.iter().take(count);
    match column.first() {
        Some(Value::Token(_)) => {
            let [tokens, _] = list(column.iter().map(|value| value.as_bytes()));
            columns.push(tokens);
        }
        Some(Value::Int(_)) => {
            let of = |value: &&Value| if let Value::Int(number) = value { Some(*number) } else { None };
            columns.push(Value::ManyInt(Some(distinct.filter_map(of).collect())));
        }
        Some(Value::Small(_)) => {
            let of = |value: &&Value| if let Value::Small(number) = value { *number } else { None };
            columns.push(Value::ManySmall(distinct.filter_map(of).collect()));
        }
        Some(Value::Big(_)) => {
            let of = |value: &&Value| if let Value::Big(number) = value { Some(Some(*number)) } else { None };
            columns.push(Value::ManyBig(distinct.filter_map(of).collect()));
        }
        // No fingerprint has no byte.
        Some(first) if are_equal => columns.extend([Value::bytes(first.as_bytes()), Value::ManyInt(None)]),
        _ => columns.extend(list(column.iter().map(|value| value.as_bytes()))),
    }
}

/// One behind the other, and where each ends, from 0 on.
fn list<'a>(values: impl Iterator<Item = &'a [u8]>) -> [Value; 2] {
    let (mut bytes, mut ends) = (Vec::new(), vec![0]);
    for value in values {
        bytes.extend_from_slice(value);
        ends.push(whole(bytes.len()));
    }
    [Value::Bytes(Some(bytes)), Value::ManyInt(Some(ends))]
}

/// A statement has far fewer steps and bytes.
fn whole(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_equal_is_there_once() {
        let step = |name: &[u8], token: u8, digest: Option<&[u8]>, until: i64| {
            let digest = Value::Bytes(digest.map(<[u8]>::to_vec));
            [Value::bytes(name), Value::Token([token; 16]), Value::Int(1), digest, Value::Big(until)]
        };
        let columns =
            |steps: &[[Value; 5]]| columns(&steps.iter().map(<[_; 5]>::as_slice).collect::<Vec<_>>());
        let ends = |ends: &[i32]| Value::ManyInt(Some(ends.to_vec()));
        let tokens = Value::bytes(&[[7; 16], [8; 16]].concat());

        let alike = columns(&[step(b"ns-a", 7, Some(b"x"), 9), step(b"ns-bc", 8, Some(b"x"), 9)]);
        let names = [ends(&[1, 2]), Value::bytes(b"ns-"), Value::bytes(b"abc"), ends(&[0, 1, 3])];
        let rest = [
            tokens.clone(),
            ends(&[1]),
            Value::bytes(b"x"),
            Value::ManyInt(None),
            Value::ManyBig(vec![Some(9)]),
        ];
        assert_eq!(alike, [names.as_slice(), rest.as_slice()].concat());

        let unlike = columns(&[step(b"ns", 7, None, 8), step(b"ns-a", 8, Some(b"x"), 9)]);
        let names = [ends(&[1, 2]), Value::bytes(b"ns"), Value::bytes(b"-a"), ends(&[0, 0, 2])];
        let leases = Value::ManyBig(vec![Some(8), Some(9)]);
        let rest = [tokens, ends(&[1]), Value::bytes(b"x"), ends(&[0, 0, 1]), leases];
        assert_eq!(unlike, [names.as_slice(), rest.as_slice()].concat());
    }
}
