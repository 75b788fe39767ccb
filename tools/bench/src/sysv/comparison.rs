//! What is compared with what.

use super::target::Target;

/// Whose calls are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The kernel's.
    Kernel,
    /// The pool's, with the program under `vshmem run`.
    Pool,
    /// The same on a pool that keeps free memory zeroed ahead of demand.
    PreparedPool,
    /// One role in each of two guests, on the pool that they share.
    Guests,
    /// One role in each of two guests, over their network.
    Network,
}

impl Place {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Pool => "pool",
            Self::PreparedPool => "prepared pool",
            Self::Guests => "guests",
            Self::Network => "network",
        }
    }

    /// Whether its programs run under `vshmem run`.
    pub(super) fn is_on_pool(self) -> bool {
        !matches!(self, Self::Kernel | Self::Network)
    }

    /// Whether its two roles run in guests.
    #[must_use]
    pub fn is_in_guests(self) -> bool {
        matches!(self, Self::Guests | Self::Network)
    }
}

/// What decides how long a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Rounds that fill a number of batches.
    Rounds,
    /// So many rounds.
    Fixed {
        /// How many.
        rounds: u64,
    },
    /// So many times the length of runs that are measured by time.
    Time {
        /// How many times.
        spans: u64,
    },
    /// Ten seconds, and what other processes of the pool spend meanwhile counts.
    Sustained,
}

/// Which CPUs a program pins itself to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pins {
    /// None.
    Free,
    /// One process to the first.
    First,
    /// Two processes, each to one of its own.
    Apart,
    /// Two processes to the first.
    Together,
}

/// A program and its words.
#[derive(Debug, Clone)]
pub struct Case {
    /// The C program.
    pub program: &'static str,
    /// Its words, without those of length and CPUs.
    pub words: Vec<String>,
    /// How long it runs.
    pub length: Length,
    /// Where it runs.
    pub pins: Pins,
    /// Waiters go to sleep at once.
    pub no_spin: bool,
    /// On a pool it shares POSIX objects and locks as well.
    pub posix: bool,
}

/// Who takes turns.
#[derive(Debug, Clone)]
pub struct Contender {
    /// What it is called in the table.
    pub label: String,
    /// Whose calls.
    pub place: Place,
    /// What is run.
    pub case: Case,
}

/// Which figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Time on the clock.
    Wall,
    /// CPU time of all processes that took part.
    Cpu,
}

/// What is to be found out.
#[derive(Debug, Clone)]
pub enum Question {
    /// The product of the medians of the contenders `over`, divided by that of `under`: times, so
    /// it says how many times as fast `under` is, which is what is judged.
    Quotient {
        /// What it is called.
        label: String,
        /// Which figure.
        figure: Figure,
        /// By index.
        over: Vec<usize>,
        /// By index.
        under: Vec<usize>,
        /// What it should be.
        target: Option<Target>,
    },
    /// The smallest share of any process in any run, of what each would have had if all had had the
    /// same.
    SmallestShare {
        /// Whose, by index.
        of: usize,
        /// What it should be.
        target: Option<Target>,
    },
}

/// Contenders that take turns, and what is to be found out from them.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// What `--only` calls it.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// What is to be found out.
    pub questions: Vec<Question>,
}

impl Comparison {
    /// The same on kernel and pool; the ratio of their times.
    pub(super) fn of_both(name: &str, about: &str, case: &Case, target: Option<Target>) -> Self {
        let contender =
            |place: Place| Contender { label: place.name().to_owned(), place, case: case.clone() };
        Self {
            name: name.to_owned(),
            about: about.to_owned(),
            contenders: vec![contender(Place::Kernel), contender(Place::Pool)],
            questions: vec![speed_up("kernel / pool", Figure::Wall, 0, 1, target)],
        }
    }

    /// Whether it needs a pool that keeps free memory zeroed.
    #[must_use]
    pub fn needs_prepared_pool(&self) -> bool {
        self.contenders.iter().any(|one| one.place == Place::PreparedPool)
    }

    /// The targets, in one line.
    #[must_use]
    pub fn targets(&self) -> String {
        let mut targets: Vec<String> = Vec::new();
        for question in &self.questions {
            let text = match question {
                Question::Quotient { label, target: Some(target), over, .. }
                    if self.questions.len() == 1 || over.len() > 1 || label.contains('/') =>
                {
                    format!("{label} {target}")
                }
                Question::Quotient { target: Some(target), .. } => {
                    format!("one / many {target}")
                }
                Question::SmallestShare { target: Some(target), .. } => {
                    format!("smallest share {target}")
                }
                _ => continue,
            };
            if !targets.contains(&text) {
                targets.push(text);
            }
        }
        if targets.is_empty() { "none".into() } else { targets.join("; ") }
    }
}

pub(super) fn speed_up(
    label: &str,
    figure: Figure,
    over: usize,
    under: usize,
    target: Option<Target>,
) -> Question {
    Question::Quotient {
        label: label.to_owned(),
        figure,
        over: vec![over],
        under: vec![under],
        target,
    }
}
