//! The command line as it was given, for a hint that repeats it.

use vshmem_session::quoted;

/// An option to leave out, and whether its value follows it.
pub type Left = (&'static str, bool);

/// What was given, without the options `left`, and with the words `added` behind the other options.
pub fn again(left: &[Left], added: &[&str]) -> String {
    let given = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    repeat(given, left, added)
}

fn repeat(given: impl Iterator<Item = String>, left: &[Left], added: &[&str]) -> String {
    let mut line = String::from("vshmem");
    let mut add = |word: &str| {
        line.push(' ');
        line.push_str(&quoted(word));
    };
    let mut given = given.peekable();
    // Behind `--` the words are another program's.
    while let Some(word) = given.next_if(|word| word != "--") {
        let same = |&&(option, _): &&Left| {
            word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        match left.iter().find(same) {
            Some(&(option, true)) if word == option => drop(given.next()),
            Some(_) => {}
            None => add(&word),
        }
    }
    added.iter().for_each(|word| add(word));
    given.for_each(|word| add(&word));
    line
}

#[cfg(test)]
mod tests {
    use super::{Left, repeat};

    fn repeated(given: &[&str], left: &[Left], added: &[&str]) -> String {
        repeat(given.iter().map(|&word| word.to_owned()), left, added)
    }

    #[test]
    fn nothing_that_was_given_is_lost() {
        let given = ["plan", "check", "--plan", "my plans/one.json", "--json"];
        let whole = "vshmem plan check --plan 'my plans/one.json' --json";
        assert_eq!(repeated(&given, &[], &[]), whole);
    }

    #[test]
    fn an_option_is_left_out_with_its_value() {
        let left = [("--device", true), ("--notify", false)];
        for given in [
            &["lab", "--name", "a", "up", "--device", "plain", "--notify", "-n", "3"][..],
            &["lab", "--name", "a", "up", "--notify", "--device=plain", "-n", "3"],
        ] {
            assert_eq!(repeated(given, &left, &[]), "vshmem lab --name a up -n 3");
        }
    }

    #[test]
    fn what_is_added_stands_before_another_programs_words() {
        let given = ["plan", "apply", "--", "-drive", "file=a b"];
        let whole = "vshmem plan apply --dry-run -- -drive 'file=a b'";
        assert_eq!(repeated(&given, &[], &["--dry-run"]), whole);
    }
}
