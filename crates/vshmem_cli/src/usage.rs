//! What is wrong with a command line: one sentence, with a command that is right.

use std::error::Error as _;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use vshmem_session::quoted;

/// Verbs by which other commands are known, or that stand below another one here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("create", "pool create"),
    ("check", "pool check"),
    ("show", "pool show"),
    ("serve", "pool serve"),
    ("evict", "pool evict"),
    ("up", "lab up"),
    ("exec", "lab exec"),
    ("down", "lab down"),
    ("kill", "lab kill"),
    ("list", "ls"),
    ("remove", "rm"),
    ("delete", "rm"),
    ("stat", "top"),
];

/// Shows help and the version where they were asked for; else says what is wrong, with exit
/// code 2.
pub fn tell(error: &Error, whole: &Command, words: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A closed output is no reason to fail.
            let _ = error.print();
        }
        _ => eprintln!("vshmem: {}", sentence(error, whole, words)),
    }
    ExitCode::from(error.exit_code() as u8)
}

fn sentence(error: &Error, whole: &Command, words: &[OsString]) -> String {
    let line = Line::of(whole, words);
    let verb = match &line.verb[..] {
        "" => String::new(),
        verb => format!("{verb}: "),
    };
    let (wrong, remedy) = line.explain(error);
    format!("{verb}{wrong}. {remedy}")
}

/// A command line that was not understood.
struct Line<'a> {
    /// The verb that was reached, as in `pool create`.
    verb: String,
    command: &'a Command,
    /// What stands behind the verb.
    words: Vec<String>,
}

impl<'a> Line<'a> {
    fn of(whole: &'a Command, words: &[OsString]) -> Self {
        let words: Vec<String> =
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let (mut command, mut verbs, mut behind) = (whole, Vec::new(), 0);
        let mut nth = 0;
        while let Some(word) = words.get(nth) {
            nth += 1;
            if let Some(below) = command.find_subcommand(word) {
                command = below;
                verbs.push(word.as_str());
                behind = nth;
            } else if takes_value(command, word) {
                nth += 1;
            } else {
                break;
            }
        }
        Self { verb: verbs.join(" "), command, words: words[behind..].to_vec() }
    }

    /// What is wrong, and what to do.
    fn explain(&self, error: &Error) -> (String, String) {
        let one = |kind| error.get(kind).map(text).unwrap_or_default();
        let argument = one(ContextKind::InvalidArg);
        let option = argument.split([' ', '=']).next().unwrap_or_default().to_owned();
        match error.kind() {
            ErrorKind::InvalidSubcommand => self.unknown_verb(
                &one(ContextKind::InvalidSubcommand),
                error.get(ContextKind::SuggestedSubcommand),
            ),
            ErrorKind::UnknownArgument if argument.starts_with('-') => self.unknown_option(
                &argument,
                error.get(ContextKind::SuggestedArg).map(text).as_deref(),
            ),
            ErrorKind::UnknownArgument => self.word_too_many(&argument),
            ErrorKind::MissingRequiredArgument if argument.contains('|') => {
                ("it is not said what is meant".into(), self.example(""))
            }
            ErrorKind::MissingRequiredArgument => {
                (format!("{argument} is missing"), self.example(&option))
            }
            ErrorKind::InvalidValue => (parsers_own(error), self.example(&option)),
            ErrorKind::ValueValidation => {
                (refused_value(error, &option, &argument), self.example(&option))
            }
            _ => (parsers_own(error), self.help()),
        }
    }

    fn unknown_verb(&self, word: &str, meant: Option<&ContextValue>) -> (String, String) {
        let meant = meant.map(first).filter(|meant| !meant.is_empty());
        let elsewhere = ELSEWHERE.iter().find(|(known, _)| self.verb.is_empty() && *known == word);
        if let Some((_, verb)) = elsewhere {
            let remedy = format!("`vshmem {verb} --help` shows the verb that is perhaps meant");
            return (format!("there is no verb {word:?}"), remedy);
        }
        let remedy = match meant {
            Some(meant) => format!("`vshmem {}{meant}` is perhaps meant; ", self.spaced()),
            None => String::new(),
        };
        (format!("there is no verb {word:?}"), format!("{remedy}{}", self.help()))
    }

    fn unknown_option(&self, option: &str, meant: Option<&str>) -> (String, String) {
        let behind = self.words.iter().skip_while(|word| *word != option).nth(1);
        if option[1..].starts_with(|digit: char| digit.is_ascii_digit()) {
            let wrong = format!("{option} is negative, and nothing here can be");
            return (wrong, self.example(self.option_before(option).unwrap_or_default()));
        }
        if self.verb.is_empty() {
            let wrong = format!("{option} stands in front of the verb, or there is no such option");
            return (wrong, "Options follow the verb, as in `vshmem ls --pool job7`".into());
        }
        let wrong = format!("there is no option {option}");
        if option == "--pool" && self.takes_name() {
            let name = behind.map_or("job7", String::as_str);
            return (wrong, format!("The pool is named without it: `vshmem {} {name}`", self.verb));
        }
        if option == "--pool" && self.verb == "pool ls" {
            let name = behind.map_or("job7", String::as_str);
            return (wrong, format!("`vshmem pool show {name}` shows one pool"));
        }
        let alike = meant.map(str::to_owned).or_else(|| self.long_form(option));
        match alike {
            Some(meant) => (
                format!("{wrong}; {meant} is perhaps meant"),
                self.example(meant.split(' ').next().unwrap_or_default()),
            ),
            None => (wrong, self.help()),
        }
    }

    fn word_too_many(&self, word: &str) -> (String, String) {
        let wrong = format!("{word:?} is one word too many");
        let shown = quoted(word);
        let remedy = match self.verb.as_str() {
            "rm" if word.parse::<u32>().is_ok() => format!(
                "Say what has that id: `vshmem rm -m {word}` removes a segment, `vshmem rm -q {word}` a queue, `vshmem rm -s {word}` a semaphore set"
            ),
            "pool create" if crate::size::parse(word).is_ok() => match self.words.first() {
                Some(name) if name != word && !name.starts_with('-') => format!(
                    "A size is given as in `vshmem pool create {} --size {word}`",
                    quoted(name)
                ),
                _ => self.example("--size"),
            },
            "pool ls" => format!("`vshmem pool show {shown}` shows one pool"),
            "lab ls" => format!("`vshmem lab --name {shown} ls` shows one lab"),
            _ if self.takes("pool") => {
                format!("If it is the pool: `vshmem {} --pool {shown}`", self.verb)
            }
            _ => self.help(),
        };
        (wrong, remedy)
    }

    /// The option that a value that looks like an option was meant for.
    fn option_before(&self, value: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == value)?;
        Some(self.words.get(at.checked_sub(1)?)?.as_str())
    }

    fn takes(&self, long: &str) -> bool {
        self.command.get_arguments().any(|argument| argument.get_long() == Some(long))
    }

    /// The verb's first word is the name of a pool.
    fn takes_name(&self) -> bool {
        self.verb.starts_with("pool ")
            && self.command.get_positionals().next().is_some_and(|first| first.get_id() == "name")
    }

    /// The long option that begins with the letter of a short one that there is not.
    fn long_form(&self, short: &str) -> Option<String> {
        let letter = short.strip_prefix('-').filter(|letter| letter.len() == 1)?;
        let mut long = self.command.get_arguments().filter(|one| !one.is_hide_set());
        long.find_map(|one| one.get_long().filter(|long| long.starts_with(letter)))
            .map(|long| format!("--{long}"))
    }

    fn spaced(&self) -> String {
        if self.verb.is_empty() { String::new() } else { format!("{} ", self.verb) }
    }

    /// One of the examples that the verb's help has: one with this option, if there is one.
    fn example(&self, option: &str) -> String {
        let all = examples(self.command);
        let named = |argument: &&Arg| {
            argument.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long))
        };
        let short = self.command.get_arguments().find(named).and_then(Arg::get_short);
        let short = short.map(|letter| format!("-{letter}"));
        let has = |line: &&String| {
            line.split(' ').any(|word| word == option || Some(word) == short.as_deref())
        };
        match all.iter().find(has).or_else(|| all.first()) {
            Some(example) => format!("An example: `{example}`"),
            None => self.help(),
        }
    }

    fn help(&self) -> String {
        format!("`vshmem {}--help` shows what there is", self.spaced())
    }
}

/// Whether a word is an option of the command whose value is the next word.
fn takes_value(command: &Command, word: &str) -> bool {
    let Some(long) = word.strip_prefix("--") else { return false };
    let known = command.get_arguments().find(|argument| argument.get_long() == Some(long));
    known.is_some_and(|argument| argument.get_action().takes_values())
}

/// The commands among the examples of a verb's help, without what stands beside them.
pub fn examples(command: &Command) -> Vec<String> {
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = notes.lines().filter_map(|line| line.strip_prefix("  vshmem "));
    lines
        .map(|line| {
            let command = line.split("  ").next().unwrap_or_default();
            format!("vshmem {}", command.trim_end_matches(" &"))
        })
        .collect()
}

/// What the parser says itself, in one line: its first paragraph.
fn parsers_own(error: &Error) -> String {
    let whole = error.to_string();
    let lines = whole.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}

/// What the option's own parser said. Numbers are parsed by others, who say too little.
fn refused_value(error: &Error, option: &str, argument: &str) -> String {
    let value = error.get(ContextKind::InvalidValue).map(text).unwrap_or_default();
    let said = error.source().map(ToString::to_string).unwrap_or_default();
    let option = if option.starts_with('-') { option } else { argument };
    if let Some((_, range)) = said.split_once(" is not in ") {
        let (least, most) = range.split_once("..").unwrap_or((range, ""));
        return match most.trim_start_matches('=') {
            "" => format!("{option} is {value}, and must be {least} or more"),
            most => format!("{option} is {value}, and must be from {least} to {most}"),
        };
    }
    if said.contains("digit") || said.contains("number too") || said.contains("empty string") {
        return format!("{option} cannot be {value:?}: it must be a whole number");
    }
    format!("{option}: {said}")
}

fn text(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.join(", "),
        other => other.to_string(),
    }
}

fn first(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.first().cloned().unwrap_or_default(),
        other => other.to_string(),
    }
}
