//! The reader of addresses: a strict part of RFC 5322 with RFC 6532's characters. Header fields of given mails are
//! read with comments and groups, which other programs write there.

use super::{Address, InvalidAddress, is_atext, is_dot_atom, is_phrase_char, refuse_controls};
use std::{iter::Peekable, str::Chars};

/// How much of the grammar is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// Names, quotes, addresses.
    Strict,
    /// Comments, groups and empty list elements too.
    Field,
}

/// Addresses parted by commas.
pub(crate) fn parse_list(text: &str, syntax: Syntax) -> Result<Vec<Address>, InvalidAddress> {
    refuse_controls(text)?;
    let mut reader = Reader { chars: text.chars().peekable(), syntax };
    let mut found = Vec::new();
    let mut in_group = false;
    loop {
        reader.skip()?;
        match reader.peek() {
            None if in_group => return Err(InvalidAddress::Group),
            None if found.is_empty() && syntax == Syntax::Strict => return Err(InvalidAddress::Empty),
            None => return Ok(found),
            Some(',') if syntax == Syntax::Field => {
                reader.next();
                continue;
            }
            Some(';') if in_group => {
                reader.next();
                in_group = false;
                continue;
            }
            _ => {}
        }
        match reader.mailbox()? {
            Item::Address(address) => found.push(address),
            Item::GroupStart if syntax == Syntax::Strict || in_group => return Err(InvalidAddress::Group),
            Item::GroupStart => {
                in_group = true;
                continue;
            }
        }
        reader.skip()?;
        match reader.peek() {
            None => {}
            Some(';') if in_group => {}
            Some(',') => {
                reader.next();
                reader.skip()?;
                if syntax == Syntax::Strict && reader.peek().is_none() {
                    return Err(InvalidAddress::Empty);
                }
            }
            Some('>') => return Err(InvalidAddress::Brackets),
            Some(_) => return Err(InvalidAddress::Trailing),
        }
    }
}

const NO_SERVER: &str = "it holds a character that no server takes";

enum Item {
    Address(Address),
    GroupStart,
}

/// A word of a name or of a local part.
enum Word {
    Atom(String),
    Quoted(String),
}

struct Reader<'t> {
    chars: Peekable<Chars<'t>>,
    syntax: Syntax,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.chars.peek().copied()
    }

    fn next(&mut self) -> Option<char> {
        self.chars.next()
    }

    fn take(&mut self, wanted: char) -> bool {
        self.chars.next_if_eq(&wanted).is_some()
    }

    /// White space, and comments where they are taken. Answers whether there was any.
    fn skip(&mut self) -> Result<bool, InvalidAddress> {
        let mut any = false;
        loop {
            while self.take(' ') {
                any = true;
            }
            if self.peek() != Some('(') {
                return Ok(any);
            }
            any = true;
            if self.syntax == Syntax::Strict {
                return Err(InvalidAddress::Comment);
            }
            let mut depth = 0_u32;
            loop {
                match self.next() {
                    None => return Err(InvalidAddress::Comment),
                    Some('\\') => _ = self.next(),
                    Some('(') => depth += 1,
                    Some(')') => depth -= 1,
                    Some(_) => {}
                }
                if depth == 0 {
                    break;
                }
            }
        }
    }

    /// `local@domain`, `name <local@domain>`, or the name of a group up to its colon.
    fn mailbox(&mut self) -> Result<Item, InvalidAddress> {
        let mut words: Vec<Word> = Vec::new();
        // Whether space parted the last two words: `a b@c` is no address, and `"a" .b` neither.
        let mut gap = false;
        loop {
            gap |= self.skip()? && !words.is_empty();
            match self.peek() {
                Some('"') => words.push(Word::Quoted(self.quoted()?)),
                Some('<') => {
                    self.next();
                    let (local, domain) = self.inside()?;
                    // Names in given mails may be encoded and stay in the mail; only the address is asked for.
                    let name = if self.syntax == Syntax::Strict { name_of(words) } else { None };
                    return Address::from_parts(name, local, domain).map(Item::Address);
                }
                Some('@') => {
                    self.next();
                    if gap && self.syntax == Syntax::Strict {
                        return Err(InvalidAddress::Local { reason: "it holds a space" });
                    }
                    let local = local_of(words)?;
                    let domain = self.domain();
                    return Address::from_parts(None, local, domain).map(Item::Address);
                }
                Some(':') if words.is_empty() => return Err(InvalidAddress::QuoteName { found: ':' }),
                Some(':') => {
                    self.next();
                    return Ok(Item::GroupStart);
                }
                Some(c) if is_phrase_char(c) || c == '.' => words.push(Word::Atom(self.atom())),
                Some('>') => return Err(InvalidAddress::Brackets),
                // A comma after words that were no address: a name that should have been quoted, more often than not.
                Some(c) if c != ',' || !words.is_empty() => {
                    return Err(InvalidAddress::QuoteName { found: c });
                }
                Some(_) => return Err(InvalidAddress::Empty),
                None => return Err(InvalidAddress::NoAt),
            }
        }
    }

    /// What stands between `<` and `>`.
    fn inside(&mut self) -> Result<(String, String), InvalidAddress> {
        self.skip()?;
        let mut words = Vec::new();
        loop {
            match self.peek() {
                Some('"') => words.push(Word::Quoted(self.quoted()?)),
                Some('@') => {
                    self.next();
                    break;
                }
                Some(c) if is_phrase_char(c) || c == '.' => words.push(Word::Atom(self.atom())),
                Some('>') => {
                    return Err(if words.is_empty() { InvalidAddress::Empty } else { InvalidAddress::NoAt });
                }
                Some(' ') => return Err(InvalidAddress::Local { reason: "it holds a space" }),
                Some(_) => {
                    return Err(InvalidAddress::Local { reason: "it holds a character that needs quotes" });
                }
                None => return Err(InvalidAddress::Brackets),
            }
        }
        let local = local_of(words)?;
        let domain = self.domain();
        self.skip()?;
        if self.take('>') { Ok((local, domain)) } else { Err(InvalidAddress::Brackets) }
    }

    fn domain(&mut self) -> String {
        let mut domain = String::new();
        if self.peek() == Some('[') {
            while let Some(c) = self.next() {
                domain.push(c);
                if c == ']' {
                    break;
                }
            }
        } else {
            // Broad on purpose: what belongs to no host name is refused by name later on.
            while let Some(c) = self.chars.next_if(|c| !matches!(c, ' ' | '<' | '>' | ',' | ';' | '(' | '"'))
            {
                domain.push(c);
            }
        }
        domain
    }

    fn atom(&mut self) -> String {
        let mut atom = String::new();
        while let Some(c) = self.chars.next_if(|c| is_phrase_char(*c) || *c == '.') {
            atom.push(c);
        }
        atom
    }

    fn quoted(&mut self) -> Result<String, InvalidAddress> {
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(InvalidAddress::OpenQuote),
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.next().ok_or(InvalidAddress::OpenQuote)?),
                Some(c) => text.push(c),
            }
        }
    }
}

fn name_of(words: Vec<Word>) -> Option<String> {
    let words: Vec<String> = words
        .into_iter()
        .map(|word| match word {
            Word::Atom(text) | Word::Quoted(text) => text,
        })
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn local_of(words: Vec<Word>) -> Result<String, InvalidAddress> {
    let mut words = words.into_iter();
    match (words.next(), words.next()) {
        (None, _) => Err(InvalidAddress::NoLocal),
        (Some(Word::Quoted(text)), None) if text.is_empty() => Err(InvalidAddress::NoLocal),
        (Some(Word::Quoted(text)), None) => {
            if text.chars().all(|c| is_atext(c) || (c.is_ascii() && !c.is_ascii_control())) {
                Ok(text)
            } else {
                Err(InvalidAddress::Local { reason: NO_SERVER })
            }
        }
        (Some(Word::Atom(text)), None) if is_dot_atom(&text) => Ok(text),
        (Some(Word::Atom(text)), None) if !text.chars().all(|c| is_atext(c) || c == '.') => {
            Err(InvalidAddress::Local { reason: NO_SERVER })
        }
        (Some(Word::Atom(_)), None) => {
            Err(InvalidAddress::Local { reason: "it begins or ends with a dot, or holds two together" })
        }
        (Some(_), Some(_)) => Err(InvalidAddress::Local { reason: "it is partly in quotes" }),
    }
}
