use std::collections::{BTreeMap, HashMap};

use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap},
};
use serde_json::{Value, json};

use super::{super::canonical_json, NumberText};
use crate::fingerprint::{NoStableForm, NoStableReason};

fn refused<T: Serialize + ?Sized>(value: &T) -> NoStableForm {
    canonical_json(value).unwrap_err()
}

/// A map with exactly these entries, in this order.
struct Entries<K, V>(Vec<(K, V)>);
impl<K: Serialize, V: Serialize> Serialize for Entries<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

#[derive(Serialize)]
struct Holder<T> {
    map: T,
}
fn holder<T>(map: T) -> Holder<T> {
    Holder { map }
}

#[track_caller]
fn check_key<K: Serialize>(key: K, expected: &str) {
    let refused = refused(&holder(Entries(vec![(key, 1)])));
    assert_eq!(refused.path, "$.map");
    let NoStableReason::UnorderableKey { kind } = refused.reason else { panic!("{refused}") };
    assert_eq!(kind, expected);
}

#[test]
fn numbers_that_are_not_finite() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(refused(&value).reason, NoStableReason::NotFinite);
    }
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(refused(&value).reason, NoStableReason::NotFinite);
    }
    for text in ["1e400", "-1e400", "NaN", "inf"] {
        assert_eq!(refused(&NumberText { text }).reason, NoStableReason::NotFinite, "{text}");
    }
}

#[test]
fn a_number_text_that_is_no_number() {
    for text in ["", "-", "1x", "0x1"] {
        let refused = refused(&[NumberText { text }]);
        assert_eq!(refused.path, "$[0]");
        assert!(matches!(refused.reason, NoStableReason::Refused { .. }), "{text}: {refused}");
    }
}

#[test]
fn keys_without_an_order() {
    #[derive(Serialize)]
    struct Unit;
    #[derive(Serialize)]
    struct Tuple(u8, u8);
    #[derive(Serialize)]
    enum Shape {
        One(u8),
        Two(u8, u8),
        Named { a: u8 },
    }
    check_key(1.0_f64, "a float");
    check_key(1.0_f32, "a float");
    check_key(Some(1.0), "a float");
    check_key(None::<u8>, "`None`");
    check_key((), "a unit");
    check_key(Unit, "a unit");
    check_key(vec![1], "a sequence");
    check_key((1, 2), "a tuple");
    check_key(Tuple(1, 2), "a tuple");
    check_key(holder(1), "a struct");
    check_key(BTreeMap::from([(1, 1)]), "a map");
    check_key(Shape::One(1), "a variant with data");
    check_key(Shape::Two(1, 2), "a variant with data");
    check_key(Shape::Named { a: 1 }, "a variant with data");
    check_key(Value::Null, "a unit");
}

#[test]
fn keys_that_become_the_same_text() {
    #[derive(PartialEq, Eq, Hash, Serialize)]
    #[serde(untagged)]
    enum Either {
        Number(u8),
        Text(&'static str),
    }
    let map = HashMap::from([(Either::Number(1), 'a'), (Either::Text("1"), 'b'), (Either::Number(2), 'c')]);
    assert_eq!(
        refused(&map),
        NoStableForm { path: "$[\"1\"]".into(), reason: NoStableReason::CollidingKeys }
    );
    // Also when the two have the same value, and when they are next to each other.
    let entries = Entries(vec![("a", 1), ("b", 2), ("b", 2)]);
    assert_eq!(refused(&[entries]).path, "$[0].b");
}

#[test]
fn a_flattened_field_that_takes_the_name_of_another() {
    #[derive(Serialize)]
    struct Flat {
        id: u8,
        #[serde(flatten)]
        rest: BTreeMap<&'static str, u8>,
    }
    let flat = Flat { id: 1, rest: BTreeMap::from([("id", 2)]) };
    assert_eq!(refused(&flat), NoStableForm { path: "$.id".into(), reason: NoStableReason::CollidingKeys });
}

#[test]
fn nesting_beyond_the_limit() {
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert!(canonical_json(&nested(128)).is_ok());
    let error = refused(&nested(129));
    assert_eq!(error.reason, NoStableReason::TooDeep);
    assert!(error.to_string().contains("deeper than 128 levels"), "{error}");
    assert_eq!(error.path, format!("${}", "[0]".repeat(128)));

    let objects = |levels| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
    assert!(canonical_json(&objects(128)).is_ok());
    assert_eq!(refused(&objects(129)).reason, NoStableReason::TooDeep);
}

#[test]
fn wrappers_and_variants_count_as_levels() {
    #[derive(Serialize)]
    struct Wrapped(Option<Box<Self>>);
    #[derive(Serialize)]
    enum Chain {
        End,
        More(Box<Self>),
        Two(Box<Self>, u8),
        Named { next: Box<Self> },
    }
    let wrapped = |levels| (0..levels).fold(Wrapped(None), |inner, _| Wrapped(Some(Box::new(inner))));
    assert_eq!(canonical_json(&wrapped(63)).unwrap(), b"null");
    assert_eq!(refused(&wrapped(64)).reason, NoStableReason::TooDeep);
    assert_eq!(refused(&wrapped(10_000)).reason, NoStableReason::TooDeep);
    assert_eq!(refused(&Entries(vec![(wrapped(10_000), 1)])).reason, NoStableReason::TooDeep);

    // How many fit: a variant is an object, and its fields are an array or an object in it.
    let most = |fit: usize, link: fn(Box<Chain>) -> Chain| {
        let chain = |links| (0..links).fold(Chain::End, |inner, _| link(Box::new(inner)));
        assert!(canonical_json(&chain(fit)).is_ok());
        assert_eq!(refused(&chain(fit + 1)).reason, NoStableReason::TooDeep);
    };
    most(128, Chain::More);
    most(64, |next| Chain::Two(next, 1));
    most(64, |next| Chain::Named { next });
}

#[test]
fn json_text_that_was_not_parsed() {
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::RawValue")]
    struct Raw {
        #[serde(rename = "$serde_json::private::RawValue")]
        text: &'static str,
    }
    let refused = refused(&holder(Raw { text: "{ }" }));
    assert_eq!(refused, NoStableForm { path: "$.map".into(), reason: NoStableReason::RawJson });
}

#[test]
fn a_serialize_that_answers_an_error() {
    struct Refuses;
    impl Serialize for Refuses {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(S::Error::custom("the lock is poisoned"))
        }
    }
    let error = refused(&[(0, Refuses)]);
    assert_eq!(error.path, "$[0][1]");
    assert_eq!(error.reason, NoStableReason::Refused { message: "the lock is poisoned".into() });
    assert_eq!(
        error.to_string(),
        "no stable form at `$[0][1]`: the value refuses to be serialized: the lock is poisoned"
    );
    assert!(matches!(refused(&Entries(vec![(Refuses, 1)])).reason, NoStableReason::Refused { .. }));
}

#[test]
fn a_map_that_breaks_the_order_of_calls() {
    enum Broken {
        KeyTwice,
        OnlyValue,
        OnlyKey,
    }
    impl Serialize for Broken {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            match self {
                Self::KeyTwice => ["a", "b"].iter().try_for_each(|key| map.serialize_key(key))?,
                Self::OnlyValue => map.serialize_value(&1)?,
                Self::OnlyKey => map.serialize_key(&"a")?,
            }
            map.end()
        }
    }
    for broken in [Broken::KeyTwice, Broken::OnlyValue, Broken::OnlyKey] {
        assert!(matches!(refused(&broken).reason, NoStableReason::Refused { .. }));
    }
}

#[test]
fn the_path_leads_through_every_container() {
    #[derive(Serialize)]
    enum Shape {
        One(Holder<f64>),
        Two(u8, f64),
        Named { side: f64 },
    }
    #[derive(Serialize)]
    struct Order {
        items: Vec<Holder<Option<f64>>>,
    }
    let order = Order { items: vec![holder(Some(1.0)), holder(None), holder(Some(f64::NAN))] };
    assert_eq!(refused(&order).path, "$.items[2].map");
    assert_eq!(refused(&f64::NAN).path, "$");
    assert_eq!(refused(&Shape::One(holder(f64::NAN))).path, "$.One.map");
    assert_eq!(refused(&Shape::Two(1, f64::NAN)).path, "$.Two[1]");
    assert_eq!(refused(&Shape::Named { side: f64::NAN }).path, "$.Named.side");
    for (key, path) in [
        ("a1_", "$.a1_".to_owned()),
        ("1a", r#"$["1a"]"#.into()),
        ("", r#"$[""]"#.into()),
        ("two words", r#"$["two words"]"#.into()),
        ("é", r#"$["é"]"#.into()),
        ("\u{1b}[2J\"", r#"$["\u{1b}[2J\""]"#.into()),
        (&"é".repeat(65), format!("$[\"{}\"…]", "é".repeat(64))),
    ] {
        assert_eq!(refused(&BTreeMap::from([(key, f64::NAN)])).path, path);
    }
}
