use std::{
    collections::{BTreeMap, HashMap},
    thread,
};

use serde::Serialize;
use serde_json::{Value, json};

use super::{NumberText, text};

#[derive(Serialize)]
struct Unit;
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Id(u64);
#[derive(Serialize)]
struct Pair(u8, &'static str);
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
enum Color {
    Red,
    #[serde(rename = "light green")]
    Green,
}
#[derive(Serialize)]
enum Shape {
    Empty,
    Circle(f64),
    Box(u8, u8),
    Named { width: u8, name: Option<&'static str> },
}
#[derive(Serialize)]
#[serde(tag = "kind")]
enum Tagged {
    Named { b: u8, a: u8 },
}
#[derive(Serialize)]
struct Flat {
    z: u8,
    #[serde(flatten)]
    rest: BTreeMap<&'static str, u8>,
    a: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<u8>,
}
struct Bytes(&'static [u8]);
impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

#[test]
fn every_form_is_the_one_of_serde_json_with_sorted_properties() {
    fn check<T: Serialize>(value: T, expected: &str) {
        assert_eq!(text(&value), expected);
        let other = serde_json::to_value(value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(expected).unwrap(), other);
    }
    check((), "null");
    check(Unit, "null");
    check(None::<u8>, "null");
    check(Some(Some(1)), "1");
    check(true, "true");
    check('é', r#""é""#);
    check("a\"b", r#""a\"b""#);
    check(Id(7), "7");
    check(Pair(1, "x"), r#"[1,"x"]"#);
    check((1, "x", [(); 2]), r#"[1,"x",[null,null]]"#);
    check(Color::Green, r#""light green""#);
    check(Shape::Empty, r#""Empty""#);
    check(Shape::Circle(1.5), r#"{"Circle":1.5}"#);
    check(Shape::Box(2, 1), r#"{"Box":[2,1]}"#);
    check(Shape::Named { width: 1, name: None }, r#"{"Named":{"name":null,"width":1}}"#);
    check(Tagged::Named { b: 1, a: 2 }, r#"{"a":2,"b":1,"kind":"Named"}"#);
    check(Bytes(&[0, 255]), "[0,255]");
    check(
        Flat { z: 1, rest: BTreeMap::from([("m", 2), ("zz", 3)]), a: 4, absent: None },
        r#"{"a":4,"m":2,"z":1,"zz":3}"#,
    );
    check(BTreeMap::<u8, u8>::new(), "{}");
    check(Vec::<u8>::new(), "[]");
}

#[test]
fn keys_become_text_as_in_serde_json() {
    fn check<K: Serialize + Ord>(keys: impl IntoIterator<Item = K>, expected: &str) {
        let map: BTreeMap<K, u8> = keys.into_iter().map(|key| (key, 0)).collect();
        assert_eq!(text(&map), expected);
        let other: Value = serde_json::from_str(&serde_json::to_string(&map).unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(expected).unwrap(), other);
    }
    check(["b", "a"], r#"{"a":0,"b":0}"#);
    check(['z', '"'], r#"{"\"":0,"z":0}"#);
    check([10_u64, 9, u64::MAX], r#"{"10":0,"18446744073709551615":0,"9":0}"#);
    check([-1_i8, 1], r#"{"-1":0,"1":0}"#);
    check([i128::MIN], r#"{"-170141183460469231731687303715884105728":0}"#);
    check([true, false], r#"{"false":0,"true":0}"#);
    check([Color::Red, Color::Green], r#"{"Red":0,"light green":0}"#);
    check([Id(3)], r#"{"3":0}"#);
    check([Some(1)], r#"{"1":0}"#);
}

#[test]
fn integers_keep_all_their_digits() {
    assert_eq!(text(&u64::MAX), "18446744073709551615");
    assert_eq!(text(&i64::MIN), "-9223372036854775808");
    assert_eq!(text(&u128::MAX), "340282366920938463463374607431768211455");
    assert_eq!(text(&i128::MIN), "-170141183460469231731687303715884105728");
    let beyond = (1_u64 << 53) + 1;
    assert_eq!(text(&[beyond - 1, beyond]), "[9007199254740992,9007199254740993]");
}

#[test]
fn a_float_without_fraction_is_written_as_the_integer() {
    assert_eq!(text(&1.0), "1");
    assert_eq!(text(&-0.0_f64), "0");
    assert_eq!(text(&-0.0_f32), "0");
    assert_eq!(text(&9_007_199_254_740_992.0), text(&9_007_199_254_740_992_u64));
}

#[test]
fn an_f32_has_its_own_shortest_digits() {
    assert_eq!(text(&0.1_f32), "0.1");
    assert_eq!(text(&-1.5e-7_f32), "-1.5e-7");
    assert_eq!(text(&f32::MAX), "3.4028235e+38");
    assert_eq!(text(&f32::from_bits(1)), "1e-45");
    assert_eq!(text(&16_777_216_f32), "16777216");
    assert_eq!(text(&1e20_f32), "100000000000000000000");
    assert_eq!(text(&1e21_f32), "1e+21");
}

#[test]
fn a_number_passed_on_as_text_has_the_form_of_the_number() {
    for (given, expected) in [
        ("12", "12"),
        ("-12", "-12"),
        ("-0", "0"),
        ("0", "0"),
        ("1.50", "1.5"),
        ("1E2", "100"),
        ("1e21", "1e+21"),
        ("9007199254740993", "9007199254740993"),
        ("-100000000000000000000001", "-100000000000000000000001"),
    ] {
        assert_eq!(text(&NumberText { text: given }), expected);
        assert_eq!(text(&[NumberText { text: given }]), format!("[{expected}]"));
    }
}

#[test]
fn a_hash_map_has_one_form_whatever_its_order() {
    let build = || (0..200).map(|n| (format!("k{n}"), n)).collect::<HashMap<_, _>>();
    let (one, two) = (build(), build());
    // Two maps hash with other seeds, so this many entries come in another order.
    assert!(!one.keys().eq(two.keys()));
    assert_eq!(text(&one), text(&two));
}

#[test]
fn a_struct_a_map_and_parsed_json_with_one_content_have_one_form() {
    #[derive(Serialize)]
    struct Order {
        sku: &'static str,
        n: u32,
    }
    let order = Order { sku: "a", n: 2 };
    assert_eq!(text(&order), text(&json!({"n": 2, "sku": "a"})));
    assert_eq!(
        text(&order),
        text(&serde_json::from_str::<Value>(r#" {"sku":"\u0061" , "n":2.0} "#).unwrap())
    );
}

#[test]
fn the_deepest_value_allowed_fits_on_a_small_stack() {
    let nested =
        (0..128).fold(json!(1), |inner, n| if n % 2 == 0 { json!([inner]) } else { json!({"a": inner}) });
    let in_thread = thread::Builder::new().stack_size(512 * 1024).spawn(move || text(&nested)).unwrap();
    assert_eq!(in_thread.join().unwrap().len(), 64 * 2 + 64 * 6 + 1);
}
