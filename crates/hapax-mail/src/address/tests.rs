use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Address {
    text.parse().unwrap_or_else(|e| panic!("{text:?}: {e}"))
}

fn refused(text: &str) -> InvalidAddress {
    text.parse::<Address>().err().unwrap_or_else(|| panic!("{text:?} was taken"))
}

fn parts(text: &str) -> (Option<String>, String, String) {
    let address = parse(text);
    (address.name().map(str::to_owned), address.local().to_owned(), address.domain().to_owned())
}

fn expect(text: &str, name: Option<&str>, local: &str, domain: &str) {
    assert_eq!(parts(text), (name.map(str::to_owned), local.to_owned(), domain.to_owned()), "{text:?}");
}

#[test]
fn usual_forms_are_read() {
    expect("ada@example.com", None, "ada", "example.com");
    expect("  ada@example.com  ", None, "ada", "example.com");
    expect("<ada@example.com>", None, "ada", "example.com");
    expect("Ada <ada@example.com>", Some("Ada"), "ada", "example.com");
    expect("Ada   King  Lovelace<ada@example.com>", Some("Ada King Lovelace"), "ada", "example.com");
    expect("\"\" <ada@example.com>", None, "ada", "example.com");
    expect("John Q. Public <jqp@example.com>", Some("John Q. Public"), "jqp", "example.com");
    expect("O'Brien <o'brien+tag@example.com>", Some("O'Brien"), "o'brien+tag", "example.com");
    expect("ada@localhost", None, "ada", "localhost");
}

#[test]
fn quoted_names_keep_what_is_in_them() {
    expect("\"Lovelace, Ada\" <ada@example.com>", Some("Lovelace, Ada"), "ada", "example.com");
    expect(
        "\"Ada \\\"Countess\\\" L\\\\\" <ada@example.com>",
        Some("Ada \"Countess\" L\\"),
        "ada",
        "example.com",
    );
    expect("\"<ada@evil.example>\" <ada@example.com>", Some("<ada@evil.example>"), "ada", "example.com");
    expect("\"a:b;(c)@d\" <ada@example.com>", Some("a:b;(c)@d"), "ada", "example.com");
}

#[test]
fn unicode_is_kept() {
    expect("Jürgen Groß <jg@example.com>", Some("Jürgen Groß"), "jg", "example.com");
    expect("山田　太郎 <y@example.jp>", Some("山田　太郎"), "y", "example.jp");
    expect("Ada 👩‍🚀 <ada@example.com>", Some("Ada 👩‍🚀"), "ada", "example.com");
    expect("jørgen@example.com", None, "jørgen", "example.com");
    expect("用户@例子.广告", None, "用户", "例子.广告");
    assert!(parse("jørgen@example.com").needs_smtputf8());
    assert!(!parse("ada@bücher.example").needs_smtputf8());
}

#[test]
fn international_domains_become_a_labels_unless_the_local_part_needs_more() {
    let address = parse("ada@Bücher.example");
    assert_eq!(address.domain(), "Bücher.example");
    assert_eq!(address.ascii_domain(), "xn--bcher-kva.example");
    assert_eq!(address.wire_form(), "ada@xn--bcher-kva.example");
    assert_eq!(address.addr_spec(), "ada@Bücher.example");
    let address = parse("jørgen@bücher.example");
    assert_eq!(address.wire_form(), "jørgen@bücher.example");
    assert_eq!(address.ascii_domain(), "xn--bcher-kva.example");
    assert_eq!(parse("Ada@EXAMPLE.com").ascii_domain(), "example.com");
    assert!(parse("ada@EXAMPLE.com").same_mailbox(&parse("Ada L <ada@example.com>")));
    assert!(parse("ada@bücher.example").same_mailbox(&parse("ada@xn--bcher-kva.example")));
    assert!(!parse("Ada@example.com").same_mailbox(&parse("ada@example.com")));
}

#[test]
fn quoted_local_parts_and_address_literals_are_read() {
    expect("\"ada lovelace\"@example.com", None, "ada lovelace", "example.com");
    expect("\"ada\"@example.com", None, "ada", "example.com");
    assert_eq!(parse("\"ada@home\"@example.com").addr_spec(), "\"ada@home\"@example.com");
    assert_eq!(parse("\"ada\"@example.com").addr_spec(), "ada@example.com");
    expect("ada@[192.0.2.1]", None, "ada", "[192.0.2.1]");
    assert_eq!(parse("<ada@[ipv6:2001:DB8::1]>").ascii_domain(), "[IPv6:2001:db8::1]");
}

#[test]
fn each_mistake_has_its_reason() {
    use InvalidAddress as E;
    assert_eq!(refused(""), E::Empty);
    assert_eq!(refused("   "), E::Empty);
    assert_eq!(refused("<>"), E::Empty);
    assert_eq!(refused("ada"), E::NoAt);
    assert_eq!(refused("Ada <ada>"), E::NoAt);
    assert_eq!(refused("@example.com"), E::NoLocal);
    assert_eq!(refused("\"\"@example.com"), E::NoLocal);
    assert!(matches!(refused("ada@"), E::Domain { .. }));
    assert!(matches!(refused("ada@example..com"), E::Domain { .. }));
    assert!(matches!(refused("ada@example.com."), E::Domain { .. }));
    assert!(matches!(refused("ada@.example.com"), E::Domain { .. }));
    assert!(matches!(refused("ada@-a.example"), E::Domain { .. }));
    assert!(matches!(refused("ada@a_b.example"), E::Domain { .. }));
    assert!(matches!(refused("ada@home@example.com"), E::Domain { .. }));
    assert!(matches!(refused("ada@192.0.2.1"), E::Domain { .. }));
    assert!(matches!(refused("ada@[192.0.2.256]"), E::Domain { .. }));
    assert!(matches!(refused("ada@[example.com]"), E::Domain { .. }));
    assert!(matches!(refused("ada@xn--a.example"), E::Domain { .. }));
    assert!(matches!(refused("ada@exa\u{200b}mple\u{2028}.com"), E::Control { .. }));
    assert!(matches!(refused(&format!("ada@{}.com", "a".repeat(64))), E::Domain { .. }));
    assert!(matches!(refused("ada lovelace@example.com"), E::Local { .. }));
    assert!(matches!(refused(".ada@example.com"), E::Local { .. }));
    assert!(matches!(refused("ada.@example.com"), E::Local { .. }));
    assert!(matches!(refused("a..da@example.com"), E::Local { .. }));
    assert!(matches!(refused("\"a\".b@example.com"), E::Local { .. }));
    assert!(matches!(refused("a\u{200b}da@example.com"), E::Local { .. }));
    assert!(matches!(refused("a\u{fffd}da@example.com"), E::Local { .. }));
    assert_eq!(refused("a@b.example, c@d.example"), E::List);
    assert_eq!(refused("Lovelace, Ada <ada@example.com>"), E::QuoteName { found: ',' });
    assert_eq!(refused("Ada [x] <ada@example.com>"), E::QuoteName { found: '[' });
    assert_eq!(refused("\"Ada <ada@example.com>"), E::OpenQuote);
    assert_eq!(refused("Ada <ada@example.com"), E::Brackets);
    assert_eq!(refused("ada@example.com>"), E::Brackets);
    assert_eq!(refused("<ada@example.com> Ada"), E::Trailing);
    assert_eq!(refused("ada@example.com (Ada)"), E::Comment);
    assert_eq!(refused("Friends: ada@example.com;"), E::Group);
    assert_eq!(refused("=?utf-8?q?Ada?= <ada@example.com>"), E::NameEncoded);
    assert_eq!(refused("mailto:ada@example.com"), E::Group);
}

#[test]
fn line_breaks_and_controls_are_refused_wherever_they_stand() {
    for text in [
        "ada@example.com\r\nBcc: b@example.com",
        "Ada\n <ada@example.com>",
        "ada\r@example.com",
        "ada@exa\nmple.com",
    ] {
        assert_eq!(refused(text), InvalidAddress::LineBreak);
        assert_eq!(refused(text).code(), "message.header_injection");
    }
    for text in [
        "a\0da@example.com",
        "\"A\tda\" <ada@example.com>",
        "ada\u{85}@example.com",
        "A\u{2028}da <ada@example.com>",
        "ada\u{7f}@example.com",
    ] {
        assert!(matches!(refused(text), InvalidAddress::Control { .. }), "{text:?}");
    }
}

#[test]
fn lengths_are_bounded() {
    let local = "a".repeat(64);
    assert_eq!(parse(&format!("{local}@example.com")).local().len(), 64);
    assert_eq!(refused(&format!("a{local}@example.com")), InvalidAddress::LocalTooLong { bytes: 65 });
    // Quotes count: they are sent.
    assert_eq!(
        refused(&format!("\"{} b\"@example.com", "a".repeat(61))),
        InvalidAddress::LocalTooLong { bytes: 65 }
    );
    let domain = format!("{}.{}.{}.abc", "a".repeat(60), "b".repeat(60), "c".repeat(63));
    assert_eq!(domain.len(), 189);
    parse(&format!("{local}@{domain}"));
    assert_eq!(refused(&format!("{local}@{domain}d")), InvalidAddress::TooLong { bytes: 255 });
    assert!(matches!(
        refused(&format!("{} <ada@example.com>", "n".repeat(513))),
        InvalidAddress::NameTooLong { .. }
    ));
}

#[test]
fn lists_are_read_where_they_are_meant() {
    let list = Address::parse_list("Ada <ada@example.com>, \"B, C\" <b@example.com>,c@example.com").unwrap();
    let shown: Vec<String> = list.iter().map(Address::to_string).collect();
    assert_eq!(shown, ["Ada <ada@example.com>", "\"B, C\" <b@example.com>", "c@example.com"]);
    for text in [
        "a@b.example,",
        ",a@b.example",
        "a@b.example,,c@d.example",
        "a@b.example c@d.example",
        "a@b.example; c@d.example",
        "",
    ] {
        assert!(Address::parse_list(text).is_err(), "{text:?}");
    }
}

#[test]
fn fields_of_given_mails_may_hold_comments_and_groups() {
    let read =
        |text| parse_list(text, Syntax::Field).map(|l| l.iter().map(Address::addr_spec).collect::<Vec<_>>());
    assert_eq!(read("undisclosed-recipients:;").unwrap(), [""; 0]);
    assert_eq!(
        read("Friends: Ada <ada@a.example>, b@b.example;, c@c.example").unwrap(),
        ["ada@a.example", "b@b.example", "c@c.example"]
    );
    assert_eq!(
        read("ada@a.example (Ada (the first)), , b@b.example").unwrap(),
        ["ada@a.example", "b@b.example"]
    );
    assert_eq!(read("=?utf-8?q?J=C3=BCrgen=2C?= <j@a.example>").unwrap(), ["j@a.example"]);
    assert_eq!(read("").unwrap(), [""; 0]);
    assert!(read("Friends: a@b.example").is_err());
    assert!(read("A: B: a@b.example;;").is_err());
    assert!(read("a@b.example (open").is_err());
}

#[test]
fn debug_shows_nothing() {
    assert_eq!(format!("{:?}", parse("Ada <ada@example.com>")), "Address(…)");
}

#[test]
fn parts_can_be_given_apart() {
    let address = Address::new(Some(" Lovelace, Ada "), "ada@example.com").unwrap();
    assert_eq!(address.to_string(), "\"Lovelace, Ada\" <ada@example.com>");
    assert_eq!(Address::new(Some("  "), "ada@example.com").unwrap().name(), None);
    assert_eq!(Address::new(None, "Ada <ada@example.com>"), Err(InvalidAddress::NotAlone));
    assert_eq!(Address::new(Some("a\nb"), "ada@example.com"), Err(InvalidAddress::LineBreak));
}

fn local() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9!#$%&'*+/=?^_`{|}~-]{1,12}(\\.[a-z0-9+_-]{1,8}){0,3}",
        "[\\x20-\\x7e]{1,20}",
        "[a-zà-ÿ一-三]{1,12}",
    ]
}

fn domain() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9]{1,10}(\\.[a-z0-9-]{0,8}[a-z]){1,3}",
        "[a-zà-ö]{1,10}\\.example",
        Just("[192.0.2.7]".to_owned())
    ]
}

proptest! {
    #[test]
    fn what_is_shown_parses_back(name in proptest::option::of("\\PC{0,40}"), local in local(), domain in domain()) {
        let address = Address::from_parts(name, local, domain);
        prop_assume!(address.is_ok());
        let address = address.unwrap();
        prop_assert_eq!(&address.to_string().parse::<Address>().unwrap(), &address);
        prop_assert_eq!(&Address::new(address.name(), &address.addr_spec()).unwrap(), &address);
        let list = format!("{address}, {address}");
        prop_assert_eq!(Address::parse_list(&list).unwrap(), vec![address.clone(), address]);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}|[ -~\r\n\t]{0,60}|[\"<>@,;:()\\\\a. ]{0,20}") {
        for syntax in [Syntax::Strict, Syntax::Field] {
            if let Ok(list) = parse_list(&text, syntax) {
                for address in list {
                    prop_assert!(!address.to_string().contains(|c: char| c.is_control()));
                    prop_assert!(!address.wire_form().contains(|c: char| c.is_control()));
                    prop_assert_eq!(&address.to_string().parse::<Address>().unwrap(), &address);
                }
            }
        }
    }
}
