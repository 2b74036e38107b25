//! The template that makes a message of a row: a JSON line whose texts hold place holders.
//!
//! A row can change texts only, never the shape around them: the template is read as JSON first, then each of its texts
//! is rendered by itself. In `html` the values of columns are escaped.

use super::{
    problem::{Problem, Problems},
    rows::{Columns, Row},
};
use crate::{failure::Failure, text};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value, syntax::SyntaxConfig};
use serde_json::Value as Json;
use std::{borrow::Cow, collections::BTreeMap, fs, path::Path};

/// Far more than a mail has as text.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Fields whose text may come from a file of its own, and that stay when they are empty.
const BODIES: &[&str] = &["subject", "text", "html"];
/// All columns as one map, for names that are no words: `{{ row["First name"] }}`.
const ROW: &str = "row";

/// A template, checked as far as it can be without a row.
#[derive(Debug)]
pub(crate) struct Template {
    environment: Environment<'static>,
    root: Node,
    /// The columns that it names.
    needs: Vec<String>,
    shown: String,
}

/// JSON with the texts that are to be rendered.
#[derive(Debug)]
enum Node {
    Fixed(Json),
    /// By the name of its template.
    Rendered(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Template {
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let shown = text::shown(&path.display().to_string());
        let json = read(path)
            .map_err(|reason| Failure::input(format!("the template {shown} cannot be used: {reason}")))?;
        Self::new(&json, path.parent().unwrap_or(Path::new("")), shown)
    }

    fn new(json: &str, folder: &Path, shown: String) -> Result<Self, Failure> {
        let refuse = |reason: String| {
            Failure::input(format!("the template {shown} cannot be used: {reason}")).help(
                "a template is a JSON object as a line of a JSON Lines file is one, with {{ column }} in its texts",
            )
        };
        let root: Json =
            serde_json::from_str(json.trim_start_matches('\u{feff}')).map_err(|e| refuse(e.to_string()))?;
        if !root.is_object() {
            return Err(refuse("it is no JSON object".to_owned()));
        }
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|name| {
            if name == "html" { AutoEscape::Html } else { AutoEscape::None }
        });
        // As mails are written: a newline at the end is part of the text.
        let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
        environment.set_syntax(syntax.map_err(|error| refuse(error.to_string()))?);
        let mut compiler = Compiler { environment, folder, needs: Vec::new() };
        let root = compiler.node(String::new(), root).map_err(refuse)?;
        let Compiler { environment, mut needs, .. } = compiler;
        needs.sort_unstable();
        needs.dedup();
        Ok(Self { environment, root, needs, shown })
    }

    /// Whether a file has all the columns that are named.
    pub(crate) fn check(&self, columns: &Columns, file: &str) -> Result<(), Failure> {
        let Some(missing) = self.needs.iter().find(|name| !columns.contains(name)) else { return Ok(()) };
        let names: Vec<_> = columns.names().filter(|name| !name.is_empty()).collect();
        let message =
            format!("the template {} names the column `{missing}`, which {file} does not have", self.shown);
        let help = match text::nearest(missing, &names) {
            // One that is like it may hold it, and all the others.
            Some(near) if names.len() > 1 => format!("did you mean `{near}`?"),
            _ if names.len() == 1 => {
                "there is one column only: if another character stands between the columns, \
                                         name it with --delimiter"
                    .to_owned()
            }
            _ => format!("its columns are: {}", text::shown(&names.join(", "))),
        };
        Err(Failure::input(message).help(help))
    }

    /// The JSON line of a row.
    pub(crate) fn line(&self, row: &Row) -> Result<String, Problems> {
        let mut cells: BTreeMap<String, Value> = BTreeMap::new();
        cells.extend(row.cells().map(|(name, cell)| (name.to_owned(), Value::from(cell))));
        let all = Value::from(cells.clone());
        cells.entry(ROW.to_owned()).or_insert(all);
        let context = Value::from(cells);
        let mut out = String::with_capacity(512);
        let mut problems = Vec::new();
        self.write(&self.root, "", &context, &mut out, &mut problems);
        if problems.is_empty() { Ok(out) } else { Err(Problems(problems)) }
    }

    fn write(
        &self,
        node: &Node,
        field: &str,
        context: &Value,
        out: &mut String,
        problems: &mut Vec<Problem>,
    ) {
        match node {
            Node::Fixed(json) => out.push_str(&json.to_string()),
            Node::Rendered(name) => match self.render(name, context) {
                Ok(text) if text.trim().is_empty() && !BODIES.contains(&field) => out.push_str("null"),
                Ok(text) => out.push_str(&Json::from(text).to_string()),
                Err(problem) => problems.push(problem),
            },
            Node::List(items) => {
                out.push('[');
                let mut first = true;
                for item in items {
                    let before = out.len();
                    if !first {
                        out.push(',');
                    }
                    let start = out.len();
                    self.write(item, field, context, out, problems);
                    // A text that came out empty is left out of its list, so `cc` may have a column that is often empty.
                    if out.get(start..) == Some("null") { out.truncate(before) } else { first = false }
                }
                out.push(']');
            }
            Node::Object(fields) => {
                out.push('{');
                for (i, (name, node)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    out.push_str(&Json::from(name.as_str()).to_string());
                    out.push(':');
                    let field = if field.is_empty() { name } else { field };
                    self.write(node, field, context, out, problems);
                }
                out.push('}');
            }
        }
    }

    fn render(&self, name: &str, context: &Value) -> Result<String, Problem> {
        let rendered = self.environment.get_template(name).and_then(|template| template.render(context));
        rendered.map_err(|error| {
            let mut reason = match error.kind() {
                ErrorKind::UndefinedError => "the template uses a value that is not there".to_owned(),
                _ => error.to_string(),
            };
            if let Some(line) = error.line().filter(|line| *line > 1) {
                reason = format!("{reason} (line {line} of the text)");
            }
            Problem::new(name, "message.syntax", reason)
        })
    }
}

fn read(path: &Path) -> Result<String, String> {
    let metadata = fs::metadata(path).map_err(|e| e.to_string())?;
    if metadata.is_dir() {
        return Err("it is a directory".to_owned());
    }
    if metadata.len() > MAX_BYTES {
        return Err(format!("it has {} bytes: {MAX_BYTES} are the most", metadata.len()));
    }
    let bytes = fs::read(path).map_err(|e| e.to_string())?;
    String::from_utf8(bytes)
        .map_err(|e| format!("byte {} is no valid UTF-8", e.utf8_error().valid_up_to() + 1))
}

struct Compiler<'a> {
    environment: Environment<'static>,
    folder: &'a Path,
    needs: Vec<String>,
}

impl Compiler<'_> {
    fn node(&mut self, path: String, json: Json) -> Result<Node, String> {
        Ok(match json {
            Json::String(text) => self.text(path, text)?,
            Json::Array(items) => {
                let items = items.into_iter().enumerate();
                Node::List(
                    items
                        .map(|(i, item)| self.node(format!("{path}[{i}]"), item))
                        .collect::<Result<_, _>>()?,
                )
            }
            Json::Object(fields) => match (fields.len(), fields.get("file")) {
                (1, Some(Json::String(file))) if BODIES.contains(&path.as_str()) => {
                    let text = read(&self.folder.join(file))
                        .map_err(|reason| format!("{path}: {}: {reason}", text::shown(file)))?;
                    self.text(path, text)?
                }
                _ => {
                    let name =
                        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                    let fields = fields
                        .into_iter()
                        .map(|(key, value)| Ok((key.clone(), self.node(name(&key), value)?)));
                    Node::Object(fields.collect::<Result<_, String>>()?)
                }
            },
            fixed => Node::Fixed(fixed),
        })
    }

    fn text(&mut self, path: String, text: String) -> Result<Node, String> {
        if !["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) {
            return Ok(Node::Fixed(text.into()));
        }
        self.environment
            .add_template_owned(path.clone(), Cow::Owned::<str>(text))
            .map_err(|error| format!("{path}: {error}"))?;
        let template = self.environment.get_template(&path).map_err(|error| format!("{path}: {error}"))?;
        let globals: Vec<_> = self.environment.globals().map(|(name, _)| name).collect();
        let needs = template.undeclared_variables(false);
        self.needs.extend(needs.into_iter().filter(|name| name != ROW && !globals.contains(&name.as_str())));
        Ok(Node::Rendered(path))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::rows::Rows, *};
    use std::io::Cursor;

    fn template(json: &str) -> Template {
        Template::new(json, Path::new(""), "t.json".to_owned()).unwrap()
    }

    fn line(json: &str, csv: &str) -> String {
        let template = template(json);
        let mut rows = Rows::new(Cursor::new(csv.as_bytes().to_vec()), b',', "x").unwrap();
        template.check(rows.columns(), "x").unwrap();
        template.line(&rows.next().unwrap().unwrap().1.unwrap()).unwrap()
    }

    #[test]
    fn values_change_texts_and_nothing_around_them() {
        let made = line(
            r#"{"to":"{{ to }}","n":1,"subject":"Hi {{name}}"}"#,
            "to,name\na@b.c,\"x\"\",\"\"bcc\"\":\"\"\nev\"\n",
        );
        let json: Json = serde_json::from_str(&made).unwrap();
        assert_eq!(json["subject"], "Hi x\",\"bcc\":\"\nev");
        assert_eq!(json["n"], 1);
        assert_eq!(json.as_object().unwrap().len(), 3);
    }

    #[test]
    fn values_are_escaped_in_html_alone() {
        let made = line(r#"{"html":"<b>{{a}}</b>","text":"{{a}}"}"#, "a\n<&>\n");
        let json: Json = serde_json::from_str(&made).unwrap();
        assert_eq!(json["html"], "<b>&lt;&amp;&gt;</b>");
        assert_eq!(json["text"], "<&>");
    }

    #[test]
    fn empty_values_leave_their_fields_out() {
        let made = line(
            r#"{"cc":"{{cc}}","to":["{{cc}}","a@b.c","{{cc}}"],"text":"{{cc}}","metadata":{"x":"{{cc}}","y":"1"}}"#,
            "cc,id\n,1\n",
        );
        let json: Json = serde_json::from_str(&made).unwrap();
        assert_eq!(json["cc"], Json::Null);
        assert_eq!(json["to"], serde_json::json!(["a@b.c"]));
        assert_eq!(json["text"], "");
        assert_eq!(json["metadata"], serde_json::json!({"x": null, "y": "1"}));
    }

    #[test]
    fn columns_with_any_name_are_reached_through_row() {
        let made = line(r#"{"subject":"{{ row['First name'] | upper }}"}"#, "First name,id\nada,1\n");
        assert_eq!(made, r#"{"subject":"ADA"}"#);
    }

    #[test]
    fn missing_column_is_named_with_the_nearest() {
        let template = template(r#"{"subject":"{{ fist_name }}"}"#);
        let rows = Rows::new(Cursor::new(b"first_name,to\n".to_vec()), b',', "x").unwrap();
        let failure = format!("{:?}", template.check(rows.columns(), "list.csv").unwrap_err());
        assert!(failure.contains("`fist_name`") && failure.contains("`first_name`"), "{failure}");
    }

    #[test]
    fn missing_key_of_row_is_reported_with_the_field() {
        let template = template(r#"{"subject":"{{ row['x'] }}"}"#);
        let mut rows = Rows::new(Cursor::new(b"a\n1\n".to_vec()), b',', "x").unwrap();
        let problems = template.line(&rows.next().unwrap().unwrap().1.unwrap()).unwrap_err();
        assert_eq!(problems.0[0].field, "subject");
        assert_eq!(problems.0[0].code, "message.syntax");
    }

    #[test]
    fn faults_of_the_template_name_the_field() {
        for (json, part) in [
            ("[]", "no JSON object"),
            ("{", "EOF"),
            (r#"{"subject":"{{ a"}"#, "subject"),
            (r#"{"text":{"file":"no-such"}}"#, "no-such"),
        ] {
            let failure =
                format!("{:?}", Template::new(json, Path::new("/nowhere"), "t".to_owned()).unwrap_err());
            assert!(failure.contains(part), "{json}: {failure}");
        }
    }

    #[test]
    fn functions_are_no_columns() {
        assert_eq!(
            line(r#"{"subject":"{% for i in range(2) %}{{ a }}{% endfor %}"}"#, "a\nx\n"),
            r#"{"subject":"xx"}"#
        );
    }
}
