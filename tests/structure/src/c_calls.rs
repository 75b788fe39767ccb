//! Which C file of a folder calls which other.
//!
//! A file calls another if a body or an initializer in it names a function that the other defines
//! and that is not `static`. Names that several files of a folder define are left out: each of
//! these files is a program of its own, or stands for another one in a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::imports::Arrow;
use crate::tree::{root, tracked};

/// All calls between C files of one folder, by folder.
#[must_use]
pub fn c_calls() -> BTreeMap<PathBuf, BTreeSet<Arrow>> {
    let mut folders: BTreeMap<PathBuf, Vec<(PathBuf, Names)>> = BTreeMap::new();
    for path in tracked(".c") {
        let bytes = std::fs::read(root().join(&path)).expect("a source is readable");
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        folders.entry(folder).or_default().push((path, names(&String::from_utf8_lossy(&bytes))));
    }
    folders.into_iter().map(|(folder, files)| (folder, between(&files))).collect()
}

fn between(files: &[(PathBuf, Names)]) -> BTreeSet<Arrow> {
    let mut found = BTreeSet::new();
    for (from, names) in files {
        for name in &names.used {
            let mut owners = files.iter().filter(|(_, names)| names.defined.contains(name));
            if let (Some((to, _)), None) = (owners.next(), owners.next())
                && to != from
            {
                found.insert(Arrow { from: from.clone(), to: to.clone(), name: name.clone() });
            }
        }
    }
    found
}

/// Names of one file.
#[derive(Debug, Default)]
struct Names {
    /// Functions that other files may call.
    defined: BTreeSet<String>,
    /// All that stands inside braces, members of structures aside.
    used: BTreeSet<String>,
}

fn names(text: &str) -> Names {
    let mut found = Names::default();
    let (mut depth, mut head) = (0_usize, Vec::new());
    let mut before = String::new();
    for token in tokens(text) {
        match token.as_str() {
            "{" => {
                if depth == 0 {
                    found.defined.extend(function_of(&head));
                    head.clear();
                }
                depth += 1;
            }
            "}" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => head.clear(),
            _ if depth == 0 => head.push(token.clone()),
            word if is_name(word) && before != "." && before != "->" => {
                found.used.insert(word.to_owned());
            }
            _ => {}
        }
        before = token;
    }
    found
}

/// The function whose body comes after this, unless only its own file can call it.
fn function_of(head: &[String]) -> Option<String> {
    let parenthesis = head.iter().position(|token| token == "(")?;
    let name = head[..parenthesis].last().filter(|name| is_name(name))?;
    let closed = head.iter().any(|token| token == "static" || token == "=");
    (!closed).then(|| name.clone())
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Names, and other characters one by one (`->` is one); without comments, texts and the
/// preprocessor's lines.
fn tokens(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut rest = text;
    let mut at_line_start = true;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '#' && at_line_start {
            directive(rest)
        } else if first == '"' || first == '\'' {
            literal(rest, first)
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let part = |one: char| one.is_ascii_alphanumeric() || one == '_';
            rest.find(|one: char| !part(one)).unwrap_or(rest.len())
        } else if rest.starts_with("->") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        let skipped = token.starts_with("/*") || token.starts_with("//");
        if !skipped && !first.is_whitespace() && !matches!(first, '#' | '"' | '\'') {
            found.push(token.to_owned());
        }
        at_line_start = first == '\n' || (at_line_start && (skipped || first.is_whitespace()));
        rest = after;
    }
    found
}

/// Bytes of a line of the preprocessor, with the lines that it goes on in.
fn directive(text: &str) -> usize {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        if !line.trim_end_matches(['\n', '\r']).ends_with('\\') {
            break;
        }
    }
    // The end of the line stays.
    text[..length].trim_end_matches('\n').len()
}

/// Bytes of a text or a character, with its quotes.
fn literal(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, one) in text.char_indices().skip(1) {
        if !escaped && one == quote {
            return at + 1;
        }
        escaped = !escaped && one == '\\';
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{Names, between, names};
    use std::path::PathBuf;

    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(PathBuf, Names)> =
            files.iter().map(|(path, text)| (PathBuf::from(path), names(text))).collect();
        let shown = |arrow: &crate::imports::Arrow| {
            format!("{} {} {}", arrow.from.display(), arrow.to.display(), arrow.name)
        };
        between(&files).iter().map(shown).collect()
    }

    #[test]
    fn calls_and_tables_of_functions_are_arrows() {
        let upper = "static struct calls all = { .go = go };\nint twice(void) { return stop(2); }";
        let lower = "int go(int n)\n{\n\treturn n;\n}\nint stop(int n) { return n; }";
        assert_eq!(arrows(&[("a.c", upper), ("b.c", lower)]), ["a.c b.c go", "a.c b.c stop"]);
    }

    #[test]
    fn what_only_looks_like_a_call_is_none() {
        let calling = "#define GO go( \\\n\t{ go() }\n/* go(1) */\nint go(int n);\nint a(struct s *s)\n\
                       { /* go */ s->go(1); return s.go + sizeof(\"\\\"go(\") + '{'; } // go";
        let called = "int go(int n) { return n; }\nstatic int hidden(void) { return 0; }";
        assert!(arrows(&[("a.c", calling), ("b.c", called)]).is_empty());
        let twice = [("a.c", "int f(void) { return hidden(); }"), ("b.c", called)];
        assert!(arrows(&twice).is_empty());
        let programs = ["int main(void) { return part(); }\nint part(void) { return 1; }"; 2];
        assert!(arrows(&[("a.c", programs[0]), ("b.c", programs[1])]).is_empty());
    }
}
