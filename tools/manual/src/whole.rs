//! The command line with all of its verbs, those of programs of their own among them.

use clap::{Command, CommandFactory};

/// It.
pub fn command() -> Command {
    let mut whole = vshmem_cli::CommandLine::command();
    for apart in
        [vshmem_lab_command::CommandLine::command(), vshmem_bench_command::CommandLine::command()]
    {
        for verb in apart.get_subcommands() {
            whole = whole.mut_subcommand(verb.get_name(), |_| verb.clone());
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::{Arg, Command};
    use vshmem_cli::usage::examples;

    /// Whether an option is one of the parser's own.
    fn is_builtin(argument: &Arg) -> bool {
        ["help", "version"].contains(&argument.get_id().as_str())
    }

    fn verbs(command: &Command, above: &str, into: &mut Vec<(String, Command)>) {
        let name = format!("{above} {}", command.get_name()).trim().to_owned();
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            verbs(verb, &name, into);
        }
        into.push((name, command.clone()));
    }

    fn all_verbs() -> Vec<(String, Command)> {
        let mut whole = super::command();
        whole.build();
        let mut all = Vec::new();
        verbs(&whole, "", &mut all);
        all
    }

    #[test]
    fn each_example_in_the_help_is_a_command_that_parses() {
        let mut count = 0;
        for (verb, command) in all_verbs() {
            for example in examples(&command) {
                // What the shell does with the output is the shell's.
                let words = example.split(' ').take_while(|word| !word.starts_with(['>', '|']));
                let parsed = super::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{verb}: {example}: {}", parsed.unwrap_err());
                count += 1;
            }
        }
        assert!(count > 20, "{count}");
    }

    /// An option that --help shows is one that the parser takes, and one that the reference has.
    #[test]
    fn each_option_in_the_help_is_accepted_and_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/commands.md");
        let page = std::fs::read_to_string(page).unwrap().replace("\n### ", "\n## ");
        for (verb, command) in all_verbs().iter().filter(|(_, command)| !command.is_hide_set()) {
            let section = page
                .split("\n## ")
                .find(|section| section.lines().next() == Some(verb.as_str()))
                .unwrap_or_else(|| panic!("docs/reference/commands.md has no section {verb:?}"));
            let shown = command.clone().render_long_help().to_string();
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let Some(long) = argument.get_long() else { continue };
                assert!(shown.contains(&format!("--{long}")), "{verb} --help has no --{long}");
                assert!(
                    section.contains(&format!("--{long}")),
                    "{verb}: --{long} is not documented"
                );
                if !is_builtin(argument) {
                    accepts(verb, argument, long);
                }
            }
        }
    }

    /// The parser knows the option: what it complains of is something else.
    fn accepts(verb: &str, argument: &Arg, long: &str) {
        let mut words: Vec<String> = verb.split(' ').map(str::to_owned).collect();
        words.push(format!("--{long}"));
        if argument.get_action().takes_values()
            && argument.get_num_args().is_none_or(|range| range.min_values() > 0)
        {
            let possible = argument.get_possible_values();
            words.push(possible.first().map_or("1", |value| value.get_name()).to_owned());
        }
        if let Err(error) = super::command().try_get_matches_from(&words) {
            assert_ne!(error.kind(), ErrorKind::UnknownArgument, "{words:?}: {error}");
        }
    }

    /// The product does not know the lab: it looks for what says that it is in one's guest.
    #[test]
    fn a_guest_of_the_lab_is_known_by_what_the_lab_leaves_there() {
        assert_eq!(vshmem_cli::launch::LAB_ORDERS, vshmem_lab::ORDERS);
    }
}
