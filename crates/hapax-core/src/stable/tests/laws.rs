use proptest::{collection::vec, prelude::*};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Number, Value, json};

use super::text;

/// Characters on both sides of every border that the form knows: escapes, ASCII, surrogates.
fn any_text() -> impl Strategy<Value = String> {
    let char = prop_oneof![
        3 => prop::char::range(' ', '~'),
        1 => prop::char::range('\0', '\u{1f}'),
        1 => prop::char::range('\u{d7f0}', '\u{e00f}'),
        1 => prop::char::range('\u{fff0}', '\u{1000f}'),
        1 => any::<char>(),
    ];
    vec(char, 0..6).prop_map(String::from_iter)
}

fn any_leaf() -> impl Strategy<Value = Value> {
    let float = any::<u64>().prop_filter_map("not finite", |bits| Number::from_f64(f64::from_bits(bits)));
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        float.prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        any_text().prop_map(Value::from),
    ]
}

fn tree(leaf: impl Strategy<Value = Value> + 'static, name: BoxedStrategy<String>) -> BoxedStrategy<Value> {
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((name.clone(), inner), 0..6).prop_map(|entries| Value::from(Map::from_iter(entries))),
        ]
    })
    .boxed()
}

fn any_value() -> BoxedStrategy<Value> {
    tree(any_leaf(), any_text().boxed())
}

/// So few values that two of them are often the same, and their texts likely to be mixed up if they can be.
fn few_values() -> BoxedStrategy<Value> {
    let leaves =
        [json!(null), json!(0), json!(10), json!(""), json!("0"), json!("null"), json!([]), json!({})];
    tree(
        prop::sample::select(leaves.to_vec()),
        prop::sample::select(vec!["", "0", "a"]).prop_map_into().boxed(),
    )
}

/// The same value, with the properties of its objects in another order.
struct Reordered<'a>(&'a Value, u64);
impl Serialize for Reordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(elements) => {
                serializer.collect_seq(elements.iter().map(|element| Self(element, self.1)))
            }
            Value::Object(properties) => {
                let mut entries: Vec<_> = properties.iter().collect();
                let mut seed = self.1;
                entries.sort_by_cached_key(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    seed >> 32
                });
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries
                    .into_iter()
                    .try_for_each(|(name, value)| map.serialize_entry(name, &Self(value, self.1)))?;
                map.end()
            }
            leaf => leaf.serialize(serializer),
        }
    }
}

/// Equal up to how a number is held: 1.0 and 1 are one value. A float beyond 2^53 is written with fewer digits
/// than an integer has, so it is compared as the float that its text is read as.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(l), Value::Number(r)) if l.is_f64() || r.is_f64() => l.as_f64() == r.as_f64(),
        (Value::Array(l), Value::Array(r)) => l.len() == r.len() && l.iter().zip(r).all(|(l, r)| same(l, r)),
        (Value::Object(l), Value::Object(r)) => {
            l.len() == r.len() && l.iter().all(|(name, l)| r.get(name).is_some_and(|r| same(l, r)))
        }
        _ => left == right,
    }
}

proptest! {
    #[test]
    fn the_order_of_properties_never_matters(value in any_value(), seed: u64) {
        prop_assert_eq!(text(&Reordered(&value, seed)), text(&value));
    }

    #[test]
    fn the_text_reads_back_as_the_same_value(value in any_value()) {
        let text = text(&value);
        let back: Value = serde_json::from_str(&text).unwrap();
        prop_assert!(same(&back, &value), "{text} was read as {back}");
    }

    #[test]
    fn texts_are_equal_exactly_when_values_are(one in few_values(), two in few_values()) {
        prop_assert_eq!(text(&one) == text(&two), one == two);
    }

    #[test]
    fn other_values_have_another_text(one in any_value(), two in any_value()) {
        prop_assert!(same(&one, &two) || text(&one) != text(&two));
    }

    #[test]
    fn integers_of_any_width_with_one_value_have_one_text(value: u32) {
        let expected = value.to_string();
        prop_assert_eq!(text(&value), expected.as_str());
        prop_assert_eq!(text(&u64::from(value)), expected.as_str());
        prop_assert_eq!(text(&i128::from(value)), expected.as_str());
        prop_assert_eq!(text(&f64::from(value)), expected.as_str());
    }

    #[test]
    fn an_f32_reads_back_as_itself(bits: u32) {
        let value = f32::from_bits(bits);
        prop_assume!(value.is_finite());
        // Adding 0 takes the sign from -0.
        prop_assert_eq!(text(&value).parse::<f32>().unwrap().to_bits(), (value + 0.0).to_bits());
    }
}
