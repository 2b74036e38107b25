//! `--key-template`: keys for the entries that have none.

use super::{
    problem::{Problem, Problems},
    rows::{Columns, Row},
};
use crate::{failure::Failure, text};
use hapax::mail::{Address, Message, RawMessage};
use std::fmt::Write as _;

const CODE: &str = "message.idempotency_key";
const NAMES: &[&str] = &["to", "from", "subject", "line", "file", "message_id"];
const METADATA: &str = "metadata.";
/// For a column that has the name of something else.
const ROW: &str = "row.";

/// Text with place holders in braces.
#[derive(Debug)]
pub(crate) struct KeyTemplate(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    To,
    From,
    Subject,
    Line,
    File,
    MessageId,
    Metadata(String),
    Column(String),
}

/// Where an entry is, and what it was made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) line: u64,
    pub(super) file: &'a str,
    pub(super) row: Option<&'a Row>,
}

impl KeyTemplate {
    /// Reads the template. Names that are not known are columns, and refused where there are none.
    pub(crate) fn parse(template: &str, has_columns: bool) -> Result<Self, Failure> {
        let mut parts = Vec::new();
        let mut fixed = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            fixed.push_str(before);
            if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
                fixed.push_str(from.get(..1).unwrap_or_default());
                rest = after;
                continue;
            }
            let Some((name, after)) = from.strip_prefix('{').and_then(|from| from.split_once('}')) else {
                let reason = format!(
                    "--key-template has a `{}` without its other half",
                    from.get(..1).unwrap_or_default()
                );
                return Err(Failure::usage(reason).help("write {{ and }} for braces that mean themselves"));
            };
            if !fixed.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut fixed)));
            }
            parts.push(part(name, has_columns)?);
            rest = after;
        }
        fixed.push_str(rest);
        if !fixed.is_empty() {
            parts.push(Part::Text(fixed));
        }
        if parts.iter().all(|part| matches!(part, Part::Text(_))) {
            return Err(Failure::usage(
                "--key-template has no place holder, so all messages would have the same key",
            )
            .help("write for example --key-template 'welcome:{to}'"));
        }
        Ok(Self(parts))
    }

    /// Whether a file has all the columns that are named.
    pub(crate) fn check(&self, columns: &Columns, file: &str) -> Result<(), Failure> {
        let wanted =
            self.0.iter().filter_map(|part| if let Part::Column(name) = part { Some(name) } else { None });
        for name in wanted {
            if !columns.contains(name) {
                let names: Vec<_> =
                    columns.names().chain(NAMES.iter().copied()).filter(|name| !name.is_empty()).collect();
                let message = format!(
                    "--key-template: `{{{}}}` is not known, and {file} has no such column",
                    text::shown(name)
                );
                return Err(Failure::usage(message).help(known(name, &names)));
            }
        }
        Ok(())
    }

    pub(super) fn of_message(&self, message: &Message, context: Context<'_>) -> Result<String, Problems> {
        self.fill(context, |part, out| match part {
            Part::To => {
                addresses(out, message.to());
                Ok(())
            }
            Part::From => {
                addresses(out, message.from());
                Ok(())
            }
            Part::Subject => {
                message.subject().map(|subject| out.push_str(subject)).ok_or_else(|| missing("subject"))
            }
            Part::MessageId => {
                message.message_id().map(|id| out.push_str(id)).ok_or_else(|| missing("message_id"))
            }
            Part::Metadata(name) => {
                let value = message.metadata().get(name);
                value.map(|value| out.push_str(value)).ok_or_else(|| missing(&format!("{METADATA}{name}")))
            }
            _ => Ok(()),
        })
    }

    pub(super) fn of_mail(&self, mail: &RawMessage, context: Context<'_>) -> Result<String, Problems> {
        self.fill(context, |part, out| match part {
            Part::To => {
                out.push_str(&mail.to.join(","));
                Ok(())
            }
            Part::From => {
                out.push_str(&mail.from);
                Ok(())
            }
            Part::Subject => {
                subject(&mail.bytes).map(|subject| out.push_str(&subject)).ok_or_else(|| missing("subject"))
            }
            Part::MessageId => {
                mail.message_id().map(|id| out.push_str(&id)).ok_or_else(|| missing("message_id"))
            }
            Part::Metadata(name) => Err(missing(&format!("{METADATA}{name}"))),
            _ => Ok(()),
        })
    }

    fn fill(
        &self,
        context: Context<'_>,
        mut of_message: impl FnMut(&Part, &mut String) -> Result<(), Problem>,
    ) -> Result<String, Problems> {
        let mut key = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => key.push_str(text),
                Part::File => key.push_str(context.file),
                Part::Line if context.line == 0 => return Err(missing("line").into()),
                Part::Line => {
                    let _ = write!(key, "{}", context.line);
                }
                Part::Column(name) => match context.row.and_then(|row| row.get(name)) {
                    Some(cell) => key.push_str(cell),
                    None => return Err(missing(name).into()),
                },
                part => of_message(part, &mut key)?,
            }
        }
        Ok(key)
    }
}

fn part(name: &str, has_columns: bool) -> Result<Part, Failure> {
    Ok(match name {
        "to" => Part::To,
        "from" => Part::From,
        "subject" => Part::Subject,
        "line" => Part::Line,
        "file" => Part::File,
        "message_id" => Part::MessageId,
        name => {
            if let Some(name) = name.strip_prefix(METADATA).filter(|name| !name.is_empty()) {
                Part::Metadata(name.to_owned())
            } else if has_columns {
                Part::Column(name.strip_prefix(ROW).unwrap_or(name).to_owned())
            } else {
                let message = format!("--key-template: `{{{}}}` is not known", text::shown(name));
                return Err(Failure::usage(message).help(known(name, NAMES)));
            }
        }
    })
}

fn known(name: &str, names: &[&str]) -> String {
    match text::nearest(name, names) {
        Some(near) => format!("did you mean `{{{}}}`?", text::shown(near)),
        None => format!("there are {{{}}} and {{{METADATA}NAME}}", text::shown(&names.join("}, {"))),
    }
}

fn missing(name: &str) -> Problem {
    Problem::new(
        "idempotency_key",
        CODE,
        format!("--key-template names `{{{name}}}`, which this message does not have"),
    )
}

/// Without names, and with the domain as mail servers write it: the key stays when somebody's name changes.
fn addresses(out: &mut String, list: &[Address]) {
    for (i, address) in list.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{}@{}", address.local(), address.ascii_domain());
    }
}

/// The subject as it stands in the header, unfolded.
fn subject(mail: &[u8]) -> Option<String> {
    const FIELD: &[u8] = b"subject:";
    let header =
        mail.windows(4).position(|four| four == b"\r\n\r\n").and_then(|end| mail.get(..end)).unwrap_or(mail);
    let text = String::from_utf8_lossy(header);
    let mut lines = text.split("\r\n").skip_while(|line| {
        !line.as_bytes().get(..FIELD.len()).is_some_and(|start| start.eq_ignore_ascii_case(FIELD))
    });
    let mut subject = lines.next()?.get(FIELD.len()..)?.trim().to_owned();
    for more in lines.take_while(|line| line.starts_with([' ', '\t'])) {
        subject.push(' ');
        subject.push_str(more.trim());
    }
    Some(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: Context<'_> = Context { line: 7, file: "a.jsonl", row: None };

    fn key(template: &str, line: &str) -> Result<String, Problems> {
        let json = Message::from_json_line(line).unwrap();
        KeyTemplate::parse(template, false).unwrap().of_message(json.message(), CONTEXT)
    }

    const LINE: &str = r#"{"from":"s@x.example","to":["Ada <ada@X.example>","b@bücher.example"],"subject":"S","text":"","metadata":{"a.b":"1"}}"#;

    #[test]
    fn place_holders_are_filled() {
        assert_eq!(key("w:{to}", LINE).unwrap(), "w:ada@x.example,b@xn--bcher-kva.example");
        assert_eq!(key("{file}:{line}:{from}/{subject}", LINE).unwrap(), "a.jsonl:7:s@x.example/S");
        assert_eq!(key("{{{metadata.a.b}}}", LINE).unwrap(), "{1}");
    }

    #[test]
    fn what_a_message_lacks_is_named() {
        assert!(key("{metadata.c}", LINE).unwrap_err().0[0].reason.contains("{metadata.c}"));
        assert!(key("{message_id}", LINE).unwrap_err().0[0].reason.contains("{message_id}"));
    }

    #[test]
    fn mistakes_in_the_template_are_usage() {
        for (template, part) in [
            ("a:{too}", "`{to}`"),
            ("{to", "other half"),
            ("a}", "other half"),
            ("same", "no place holder"),
            ("{}", "not known"),
        ] {
            let failure = KeyTemplate::parse(template, false).unwrap_err();
            assert_eq!(failure.exit, crate::exit::Exit::Usage);
            assert!(format!("{failure:?}").contains(part), "{template}: {failure:?}");
        }
    }

    #[test]
    fn columns_may_have_any_name() {
        assert_eq!(
            KeyTemplate::parse("{row.to}{First name}", true).unwrap().0,
            [Part::Column("to".to_owned()), Part::Column("First name".to_owned())]
        );
    }

    #[test]
    fn mails_that_are_bytes_have_a_subject() {
        let mail = RawMessage::new(
            "s@x.example",
            ["a@x.example"],
            &b"To: a\r\nSUBJECT: Hi\r\n there\r\nX: 1\r\n\r\nSubject: no\r\n"[..],
        );
        let template = KeyTemplate::parse("{subject}|{to}", false).unwrap();
        assert_eq!(template.of_mail(&mail, CONTEXT).unwrap(), "Hi there|a@x.example");
    }
}
