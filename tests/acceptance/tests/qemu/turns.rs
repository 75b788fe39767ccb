//! Members of several domains that take turns at one semaphore, and one domain that dies among
//! them.

use std::thread;

use vshmem_acceptance::actor::kill;
use vshmem_acceptance::suite::{self, say};
use vshmem_acceptance::{Actor, Guests, Ran, build, run, until};

use crate::{machine, shared};

const HAND_OVERS: i64 = 1000;
/// How many names turns.c has room for.
const NAMES: i64 = 16;

/// Where a player sits. Guests have their number for a name, the host has this one.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    Here,
    Guest(u32),
}

const HOST: i64 = 15;

/// The semaphore and the segment.
#[derive(Debug, Clone, Copy)]
pub struct Game {
    set: i64,
    segment: i64,
}

impl Game {
    /// Plays until the semaphore has changed hands so often.
    pub fn play(self, guests: &Guests, place: Place, hand_overs: i64) -> Ran {
        let name = match place {
            Place::Here => HOST,
            Place::Guest(guest) => i64::from(guest),
        };
        let words = [self.set, self.segment, name, hand_overs].map(|word| word.to_string());
        match place {
            Place::Here => {
                let program = build::programs("tests/acceptance/programs").join("turns");
                run(guests.pool().run().arg(program).args(words))
            }
            Place::Guest(guest) => {
                let [set, segment, name, hand_overs] = &words;
                guests.run(guest, &["vshmem", "run", "turns", set, segment, name, hand_overs])
            }
        }
    }
}

/// The game, and a process of the host that watches.
pub struct Table {
    pub game: Game,
    looker: Actor,
    at: i64,
}

impl Table {
    pub fn lay(guests: &Guests) -> Self {
        let mut looker = Actor::on(guests.pool());
        let set = looker.number("semget 0 1 01600");
        assert_eq!(looker.ask(&format!("semctl {set} 0 setval 1")), "0");
        let segment = looker.number("shmget 0 4096 01600");
        let at = looker.number(&format!("shmat {segment} 0"));
        Self { game: Game { set, segment }, looker, at }
    }

    fn word(&mut self, number: i64) -> i64 {
        self.looker.number(&format!("peek {} {}", self.at, number * 8))
    }

    /// How often the semaphore has changed hands.
    pub fn hand_overs(&mut self) -> i64 {
        self.word(0)
    }

    /// How many turns a name had.
    pub fn turns_of(&mut self, name: i64) -> i64 {
        self.word(3 + name)
    }

    /// Insists that each turn was had by one alone. Each death may have left one half counted.
    #[track_caller]
    pub fn assert_counted(&mut self, deaths: i64) {
        let all = self.word(2);
        let each: Vec<i64> = (0..NAMES).map(|name| self.turns_of(name)).collect();
        let missing = all - each.iter().sum::<i64>();
        assert!((0..=deaths).contains(&missing), "{all} turns, of which {each:?}");
        assert_eq!(self.looker.number(&format!("semctl {} 0 getval", self.game.set)), 1);
    }

    pub fn clear(mut self) {
        assert_eq!(self.looker.ask(&format!("semctl {} 0 rmid", self.game.set)), "0");
        assert_eq!(self.looker.ask(&format!("shmctl {} rmid", self.game.segment)), "0");
    }
}

/// All of them at once; `meanwhile` happens as they play. What they said, in order.
pub fn play(
    guests: &Guests,
    game: Game,
    places: &[Place],
    hand_overs: i64,
    meanwhile: impl FnOnce(),
) -> Vec<Ran> {
    let goals: Vec<_> = places.iter().map(|&place| (place, hand_overs)).collect();
    play_to(guests, game, &goals, meanwhile)
}

/// The same, each until there have been so many hand-overs.
fn play_to(
    guests: &Guests,
    game: Game,
    goals: &[(Place, i64)],
    meanwhile: impl FnOnce(),
) -> Vec<Ran> {
    thread::scope(|scope| {
        let players: Vec<_> = goals
            .iter()
            .map(|&(place, hand_overs)| scope.spawn(move || game.play(guests, place, hand_overs)))
            .collect();
        meanwhile();
        players.into_iter().map(|player| player.join().unwrap()).collect()
    })
}

pub fn killed() {
    let guests = shared();
    let lab = guests.open();
    let mut table = Table::lay(&guests);
    // The guest that is killed is never done by itself.
    let goals =
        [(Place::Guest(1), HAND_OVERS), (Place::Here, HAND_OVERS), (Place::Guest(2), i64::MAX)];
    let game = table.game;
    let ran = play_to(&guests, game, &goals, || {
        // Early: the others are in the middle of theirs.
        until("guest 2 plays, and a tenth of the hand-overs are done", || {
            table.turns_of(2) > 0 && table.hand_overs() >= HAND_OVERS / 10
        });
        lab.kill(2).unwrap();
    });
    let [first, here, second] = &ran[..] else { panic!("{ran:?}") };
    assert_ne!(second.code, 0, "it was done before its guest was killed: {second:?}");
    say(&format!(
        "guest 2 killed in the middle of {HAND_OVERS} hand-overs; guest 1 had {}, the host {}",
        first.clone().ok().trim(),
        here.clone().ok().trim()
    ));
    assert!(table.hand_overs() >= HAND_OVERS);
    table.assert_counted(1);
    guests.pool().assert_clean();

    lab.restart(2).unwrap();
    let more = table.hand_overs() + HAND_OVERS;
    let ran = play(&guests, game, &[Place::Guest(1), Place::Guest(2)], more, || ());
    let [first, second] = &ran[..] else { panic!("{ran:?}") };
    say(&format!(
        "it is booted again; {HAND_OVERS} more hand-overs: guest 1 had {}, guest 2 {}",
        first.clone().ok().trim(),
        second.clone().ok().trim()
    ));
    table.assert_counted(1);
    table.clear();
    guests.pool().assert_clean();
}

/// The pid of `vshmem pool serve`, which is a member too.
fn server(guests: &Guests) -> Option<i64> {
    let rows = guests.pool().rows("clients");
    let row = rows.iter().find(|row| row["command"] == "vshmem" && row["state"] == "active")?;
    row["pid"].as_i64()
}

pub fn served_anew() {
    if !machine().has_interrupts() {
        suite::skip("a server's end", "these guests have no server");
        return;
    }
    let guests = shared();
    let lab = guests.open();
    let mut table = Table::lay(&guests);
    let game = table.game;
    let hand_overs = 4 * HAND_OVERS;
    let ran = play(&guests, game, &[Place::Guest(1), Place::Here], hand_overs, || {
        until("they play", || table.hand_overs() >= HAND_OVERS / 2);
        let first = server(&guests).expect("a server");
        kill(first as i32);
        // A guest that boots needs a server: the lab starts the next one.
        lab.kill(2).unwrap();
        lab.restart(2).unwrap();
        until("there is another server", || server(&guests).is_some_and(|next| next != first));
    });
    let [first, here] = &ran[..] else { panic!("{ran:?}") };
    say(&format!(
        "the server killed in the middle of {hand_overs} hand-overs, the next one started; guest 1 had {}, the host {}",
        first.clone().ok().trim(),
        here.clone().ok().trim()
    ));
    table.assert_counted(0);
    // The guest from before can be notified again once it has booted anew.
    lab.kill(1).unwrap();
    lab.restart(1).unwrap();
    let more = table.hand_overs() + HAND_OVERS;
    let places = [Place::Guest(1), Place::Guest(2), Place::Here];
    for ran in play(&guests, game, &places, more, || ()) {
        ran.ok();
    }
    table.assert_counted(0);
    table.clear();
    guests.pool().assert_clean();
}
