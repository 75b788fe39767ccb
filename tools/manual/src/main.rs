//! Writes the man pages and the completions of shells, from the command lines' own definitions:
//!     vshmem-manual DIRECTORY     made if need be, with man1 and completions in it

#![forbid(unsafe_code)]

mod whole;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::aot::{Shell, generate_to};
use clap_mangen::Man;

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Options that take words and something else, too: a completion offers their words, or what stands
/// before a file's name.
const WORDS: [(&str, &[&str]); 5] = [
    ("share", &["all", "shm", "sem", "msg", "posix", "posix-shm", "posix-sem", "mq", "pthread"]),
    ("topology", &["this", "xml:", "synthetic:", "sysfs:"]),
    ("guests", &["per-socket", "per-node", "per-l3"]),
    ("pool_numa", &["per-pair", "interleave", "ranges"]),
    ("pool", &[POOLS]),
];

/// What a completion offers after `--pool`: the pools that there are by then. Scripts get this word
/// in its place first.
const POOLS: &str = "POOLS_THAT_THERE_ARE";
const LIST_POOLS: &str = "$(vshmem pool ls --names 2>/dev/null)";

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(directory), None) = (words.next(), words.next()) else {
        eprintln!("usage: vshmem-manual DIRECTORY");
        return ExitCode::from(2);
    };
    match write(Path::new(&directory), whole::command()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vshmem-manual: cannot write in {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

fn write(directory: &Path, whole: Command) -> io::Result<()> {
    let mut whole = whole.disable_help_subcommand(true);
    let completions = directory.join("completions");
    std::fs::create_dir_all(&completions)?;
    for shell in SHELLS {
        let script = generate_to(shell, &mut without_hidden(&whole), "vshmem", &completions)?;
        let text = std::fs::read_to_string(&script)?;
        std::fs::write(script, offering_pools(&text))?;
    }
    let pages = directory.join("man1");
    std::fs::create_dir_all(&pages)?;
    whole.build();
    write_pages(&whole, None, &pages)
}

/// With the command that lists the pools in place of the word, as each shell runs one there.
fn offering_pools(script: &str) -> String {
    script
        .replace(&format!("({POOLS})"), &format!("{{compadd -- {LIST_POOLS}}}"))
        .replace(&format!("\"{POOLS}\\t''\""), "\"(vshmem pool ls --names 2>/dev/null)\"")
        .replace(POOLS, LIST_POOLS)
}

/// What a completion shows: `clap_complete` would offer hidden verbs and options, too.
fn without_hidden(command: &Command) -> Command {
    // Without its feature `string` clap takes names that last as long as the program does.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut shown = Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .args(
            command
                .get_arguments()
                .filter(|argument| !argument.is_hide_set())
                .map(|argument| with_words(argument, command.get_name())),
        )
        .subcommands(
            command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(without_hidden),
        );
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    shown
}

/// An argument of a completion, with the words that it can be completed to.
fn with_words(argument: &Arg, verb: &str) -> Arg {
    let argument = argument.clone();
    // A plan's pools are sizes.
    let takes = argument.get_action().takes_values()
        && (verb, argument.get_id().as_str()) != ("plan", "pool");
    match WORDS.iter().find(|(id, _)| takes && argument.get_id() == id) {
        Some((_, words)) => argument.value_parser(PossibleValuesParser::new(words.iter().copied())),
        None => argument,
    }
}

/// A page for the command, and one for each of its verbs.
fn write_pages(command: &Command, above: Option<&str>, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_pages(verb, Some(name), directory)?;
    }
    let source = concat!("vshmem ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).source(source).manual("vshmem");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(notes) = command.get_after_help() {
        write_notes(&mut text, &notes.to_string())?;
    }
    write!(text, ".SH \"SEE ALSO\"\n.BR {} (1)", above.unwrap_or("vshmem-run"))?;
    writeln!(text, ",\n.BR vshmem-pools (5),\n.BR libvshmem (3)")?;
    std::fs::write(directory.join(page.get_filename()), text)
}

/// What stands below the options, line by line: these are mostly commands.
fn write_notes(text: &mut Vec<u8>, notes: &str) -> io::Result<()> {
    writeln!(text, ".SH EXAMPLES AND NOTES\n.nf")?;
    for line in notes.lines().filter(|line| *line != "Examples:") {
        // A dot or an apostrophe at its beginning would make it a request; "\&" is nothing,
        // printed.
        writeln!(text, "\\&{}", line.replace('\\', "\\e").replace('-', "\\-"))?;
    }
    writeln!(text, ".fi")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_a_page_and_hidden_ones_have_none() {
        let directory = tempfile::tempdir().unwrap();
        write(&directory.path().join("new"), whole::command()).unwrap();
        let page = |name: &str| {
            std::fs::read_to_string(directory.path().join("new/man1").join(format!("{name}.1")))
        };
        for name in ["vshmem", "vshmem-run", "vshmem-pool", "vshmem-pool-create", "vshmem-lab-up"] {
            let text = page(name).unwrap();
            assert!(text.contains(".SH SYNOPSIS"), "{name}: {text}");
        }
        assert!(page("vshmem-lab-check").is_err());
        assert!(page("vshmem-run").unwrap().contains("\\&  vshmem run"));
        for file in ["vshmem.bash", "_vshmem", "vshmem.fish"] {
            let text = std::fs::read_to_string(directory.path().join("new/completions").join(file))
                .unwrap();
            assert!(text.contains("doctor"), "{file}");
            assert!(
                !text.contains("lab__check") && !text.contains("'check:What this machine"),
                "{file} offers a hidden verb"
            );
            for word in WORDS.iter().flat_map(|(_, words)| *words).filter(|word| **word != POOLS) {
                assert!(text.contains(word.trim_end_matches(':')), "{file} offers no {word}");
            }
            assert!(text.contains("(vshmem pool ls --names"), "{file} offers no pools");
            assert!(!text.contains(POOLS), "{file}");
        }
    }

    #[test]
    fn the_words_of_completions_are_taken() {
        let taken = |words: &[&str]| whole::command().try_get_matches_from(words).is_ok();
        for (option, words) in WORDS {
            let option = format!("--{}", option.replace('_', "-"));
            for word in words {
                // Before a file or a string.
                let rest = if word.ends_with(':') { "x" } else { "" };
                let word = format!("{word}{rest}");
                let run: &[&str] = &["vshmem", "run", &option, &word, "true"];
                let plan: &[&str] = &["vshmem", "plan", "--pool", "1G", &option, &word];
                assert!(taken(run) || taken(plan), "{option} {word}");
            }
        }
    }
}
