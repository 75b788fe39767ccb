//! Whose the cores are.

use crate::error::Impossible;
use crate::machine::{Core, Machine};
use crate::request::Cut;

/// The cores of each guest, by their places in the machine's list.
pub(super) struct Cores {
    pub guests: Vec<Vec<usize>>,
    /// What an even cut leaves; the host has it.
    pub left_over: Vec<usize>,
    pub notes: Vec<String>,
}

/// What cores share.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Package,
    Node,
    L3,
}

impl Level {
    fn of(self, core: &Core) -> u32 {
        match self {
            Self::Package => core.package,
            Self::Node => core.node,
            Self::L3 => core.l3,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Package => "sockets",
            Self::Node => "nodes",
            Self::L3 => "last-level caches",
        }
    }
}

/// From the coarsest.
const LEVELS: [Level; 3] = [Level::Package, Level::Node, Level::L3];

/// Cuts these cores.
pub(super) fn cut(machine: &Machine, free: &[usize], cut: Cut) -> Result<Cores, Impossible> {
    let whole = |level| Cores {
        guests: units(machine, free, level),
        left_over: Vec::new(),
        notes: Vec::new(),
    };
    let count = match cut {
        Cut::PerSocket => return Ok(whole(Level::Package)),
        Cut::PerNode => return Ok(whole(Level::Node)),
        Cut::PerL3 => return Ok(whole(Level::L3)),
        Cut::Count(count) => count as usize,
    };
    into(machine, free, count).map(even).ok_or_else(|| impossible(machine, free, count))
}

/// The cores that share that, each in the machine's order.
fn units(machine: &Machine, cores: &[usize], level: Level) -> Vec<Vec<usize>> {
    let mut units: Vec<(u32, Vec<usize>)> = Vec::new();
    for core in cores {
        let key = level.of(&machine.cores[*core]);
        match units.iter_mut().find(|(other, _)| *other == key) {
            Some((_, unit)) => unit.push(*core),
            None => units.push((key, vec![*core])),
        }
    }
    units.into_iter().map(|(_, unit)| unit).collect()
}

/// So many guests: of whole units of the coarsest level that allows it, else of equal parts of the
/// units of the finest one.
fn into(machine: &Machine, free: &[usize], count: usize) -> Option<Cores> {
    if count == 0 || count > free.len() {
        return None;
    }
    let grouped = LEVELS.into_iter().find_map(|level| group(machine, free, count, level));
    grouped.or_else(|| {
        LEVELS.into_iter().rev().find_map(|level| {
            let units = units(machine, free, level);
            count.is_multiple_of(units.len()).then(|| split(&units, count / units.len()))?
        })
    })
}

/// Guests of whole units. None of them has a part of a coarser unit beside another's.
fn group(machine: &Machine, free: &[usize], count: usize, level: Level) -> Option<Cores> {
    let units_here = units(machine, free, level);
    if !units_here.len().is_multiple_of(count) {
        return None;
    }
    let guests: Vec<Vec<usize>> =
        units_here.chunks(units_here.len() / count).map(<[Vec<usize>]>::concat).collect();
    let crosses = |guest: &Vec<usize>, coarser: Level| {
        let parts = units(machine, guest, coarser);
        parts.len() > 1
            && units(machine, free, coarser)
                .iter()
                .any(|unit| parts.iter().any(|p| unit.contains(&p[0]) && unit.len() != p.len()))
    };
    let coarser = LEVELS.into_iter().take_while(|other| *other != level);
    for other in coarser {
        if guests.iter().any(|guest| crosses(guest, other)) {
            return None;
        }
    }
    Some(Cores { guests, left_over: Vec::new(), notes: Vec::new() })
}

/// Equal parts of each unit; what is over is left.
fn split(units: &[Vec<usize>], parts: usize) -> Option<Cores> {
    let mut cores = Cores { guests: Vec::new(), left_over: Vec::new(), notes: Vec::new() };
    for unit in units {
        let size = unit.len() / parts;
        if size == 0 {
            return None;
        }
        let (given, rest) = unit.split_at(size * parts);
        cores.guests.extend(given.chunks(size).map(<[usize]>::to_vec));
        cores.left_over.extend(rest);
    }
    Some(cores)
}

/// Guests that differ by a core or two become equal; where the machine itself is uneven they stay
/// as they are.
fn even(mut cores: Cores) -> Cores {
    let smallest = cores.guests.iter().map(Vec::len).min().unwrap_or(0);
    let largest = cores.guests.iter().map(Vec::len).max().unwrap_or(0);
    if largest == smallest {
        return cores;
    }
    if largest - smallest > 2 || smallest < 4 {
        cores.notes.push("the guests differ in size, as the parts of the machine do".into());
        return cores;
    }
    for guest in &mut cores.guests {
        cores.left_over.extend(guest.drain(smallest..));
    }
    cores
}

fn impossible(machine: &Machine, free: &[usize], count: usize) -> Impossible {
    let can = |count: &usize| into(machine, free, *count).is_some();
    let below = (1..count.min(free.len() + 1)).rev().find(can);
    let above = (count + 1..=free.len()).find(can);
    let nearest = [below, above].into_iter().flatten();
    let nearest: Vec<String> = nearest.map(|count| format!("--guests {count}")).collect();
    let has = LEVELS.map(|level| format!("{} {}", units(machine, free, level).len(), level.name()));
    Impossible {
        wanted: format!("--guests {count}"),
        found: format!(
            "the machine has {} and {} cores for guests, which do not divide evenly",
            has.join(", "),
            free.len()
        ),
        nearest: match nearest.len() {
            0 => "There is no core for a guest".into(),
            _ => format!("The nearest that can be done: {}", nearest.join(" or ")),
        },
    }
}
