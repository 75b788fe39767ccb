//! Hypercalls of a round trip between two guests. Counts of an emulated machine are those of any
//! other, where its times mean nothing.

use std::collections::BTreeMap;

use vshmem_acceptance::suite::{say, skip};

use crate::rig::{DOM0, RIVAL, Xen, until};
use crate::rival::{CONTENDERS, Contender, Guests};
use crate::shared;

/// Rounds of the two runs of a contender. What is counted is the difference: how they begin and end
/// is not.
const ROUNDS: [u32; 2] = [50, 250];
const IDLE_SECONDS: u32 = 8;
const TRACE: &str = "/tmp/counts.trace";
/// Hypercalls of para-virtual guests, and the scheduler's records, which say whose they are.
const EVENTS: &str = "0x0022f000";
/// `stack_switch`: a guest goes from one thread to another.
const SHOWN: [&str; 4] = ["evtchn_op", "grant_table_op", "sched_op", "stack_switch"];

/// Hypercalls by the number of the domain and by name.
#[derive(Default)]
struct Trace {
    seconds: f64,
    calls: BTreeMap<(u32, String), f64>,
}

impl Trace {
    /// What `xenalyze --summary` has written.
    fn read(text: &str) -> Self {
        let mut trace = Self::default();
        let mut domain = 0;
        let number = |words: &[&str], at: usize| words.get(at)?.trim_end_matches(':').parse().ok();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["Total", "time:", ..] => trace.seconds = number(&words, 2).expect("seconds"),
                ["|--", "Domain", which, "--|"] => domain = which.parse().expect("a domain"),
                // `    evtchn_op     [32]:    653`; of one figure: `[ 3]:`.
                [name, "[", _, count] | [name, _, count] if line.contains("]: ") => {
                    if let Ok(count) = count.parse::<f64>() {
                        trace.calls.insert((domain, name.to_owned()), count);
                    }
                }
                _ => {}
            }
        }
        trace
    }

    /// Of some domains, of one name or of all.
    fn calls(&self, domains: &[u32], name: Option<&str>) -> f64 {
        let wanted = |(domain, called): &(u32, String)| {
            domains.contains(domain) && name.is_none_or(|name| name == called)
        };
        self.calls.iter().filter(|(key, _)| wanted(key)).map(|(_, count)| count).sum()
    }
}

/// What is called while that is done.
fn traced(xen: &Xen, work: impl FnOnce()) -> Trace {
    xen.shell(DOM0, &format!("rm -f {TRACE}")).ok();
    let tracer = xen.start(DOM0, &format!("exec xentrace -D -S 1024 -e {EVENTS} {TRACE}"));
    until("it is traced", || xen.shell(DOM0, &format!("test -s {TRACE}")).code == 0);
    work();
    xen.shell(DOM0, "kill -INT $(pidof xentrace)").ok();
    tracer.end();
    let summary = format!("xenalyze --svm-mode --summary {TRACE} 2>/dev/null");
    Trace::read(&xen.shell(DOM0, &summary).ok())
}

/// Hypercalls of a round trip, above those of guests that do nothing.
struct Cost<'a> {
    idle: &'a Trace,
    runs: [Trace; 2],
}

impl Cost<'_> {
    fn calls(&self, domains: &[u32], name: Option<&str>) -> f64 {
        let [short, long] = &self.runs;
        let idle = self.idle.calls(domains, name) / self.idle.seconds;
        let more = long.calls(domains, name) - short.calls(domains, name);
        let rounds = f64::from(ROUNDS[1] - ROUNDS[0]);
        ((more - idle * (long.seconds - short.seconds)) / rounds).max(0.0)
    }
}

pub fn beside() {
    if RIVAL.is_none() {
        skip("hypercalls of libxenvchan", "its library is not unpacked (scripts/guest-xen)");
        return;
    }
    let guests = Guests::meet(shared());
    let both: Vec<u32> = guests
        .domains
        .iter()
        .map(|domain| domain.parse().expect("the number of a domain"))
        .collect();
    // The agents have come to rest when the first has been.
    CONTENDERS[0].measure(&guests, ROUNDS[0]);
    let idle = traced(&guests.xen, || {
        guests.xen.shell(DOM0, &format!("sleep {IDLE_SECONDS}")).ok();
    });
    say("hypercalls of a round trip of 64 bytes between two guests: all of the guests', of these");
    say("event channels, grant tables, scheduler, switches of thread; dom0's first two");
    for contender in &CONTENDERS {
        let runs = ROUNDS.map(|rounds| {
            traced(&guests.xen, || {
                contender.measure(&guests, rounds);
            })
        });
        let cost = Cost { idle: &idle, runs };
        let shown = |domains: &[u32], names: &[&str]| -> String {
            names.iter().map(|name| format!(" {:>6.2}", cost.calls(domains, Some(name)))).collect()
        };
        let all = cost.calls(&both, None);
        say(&format!(
            "{:<30} {all:>7.2} {}   {}",
            contender.what,
            shown(&both, &SHOWN),
            shown(&[DOM0], &SHOWN[..2])
        ));
        check(contender, &cost, &both);
    }
    guests.part();
}

/// What holds by design: memory is granted once, and one that is looked at needs no notification.
/// Idle guests do not call equally often, so a few hypercalls in 200 rounds are none of theirs.
fn check(contender: &Contender, cost: &Cost<'_>, guests: &[u32]) {
    let notified = cost.calls(guests, Some("evtchn_op"));
    let granted = cost.calls(guests, Some("grant_table_op"));
    if contender.is_on_a_pool() {
        assert!(granted < 0.5, "{}: {granted} operations on grants a round", contender.what);
    }
    if contender.what.starts_with("memory") {
        assert!(notified < 0.5, "{}: {notified} notifications a round", contender.what);
    }
}
