//! Words of a command line that is printed, so that it can be pasted.

/// A word as a shell has to be given it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+,./:@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_reads_the_words_that_were_quoted() {
        let words = ["", "a b", "it's", "$HOME", "-append", "console=ttyS0 quiet", "*", "a\\b;c"];
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let script = format!("printf '%s\\n' {}", line.join(" "));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            words.map(|w| format!("{w}\n")).concat()
        );
    }
}
