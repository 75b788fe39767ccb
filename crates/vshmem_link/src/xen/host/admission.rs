//! Who becomes a member of a pool domain.

/// What the name of a pool domain begins with.
pub(super) const PREFIX: &str = "vshmem-";

/// Who becomes a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Every guest.
    All,
    /// Those of these names.
    Named(Vec<String>),
}

impl Admission {
    pub(super) fn text(&self) -> String {
        match self {
            Self::All => "*".to_owned(),
            Self::Named(names) => names.join(" "),
        }
    }

    pub(super) fn parse(text: &str) -> Self {
        match text.trim() {
            "*" => Self::All,
            names => Self::Named(names.split_whitespace().map(str::to_owned).collect()),
        }
    }

    pub(super) fn admits(&self, guest: &str) -> bool {
        match self {
            Self::All => !guest.starts_with(PREFIX),
            Self::Named(names) => names.iter().any(|name| name == guest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_admitted_is_kept_as_text() {
        assert_eq!(Admission::parse(&Admission::All.text()), Admission::All);
        let named = Admission::Named(vec!["web".into(), "db".into()]);
        assert_eq!(Admission::parse(&named.text()), named);
        assert!(named.admits("db") && !named.admits("d"));
        assert!(Admission::All.admits("db"));
        assert!(!Admission::All.admits("vshmem-job7"), "pool domains are no guests");
        assert_eq!(Admission::parse(""), Admission::Named(Vec::new()));
    }
}
