//! The order of runs.

use fastrand::Rng;

/// In which order the contenders of one pair index have their turns.
#[derive(Debug)]
pub enum Order {
    /// Each index begins with the next contender: all have every place.
    Rotating,
    /// By lot: no rhythm of the machine can fall in with it.
    Shuffled(Rng),
}

impl Order {
    fn of(&mut self, contenders: usize, pair: usize) -> Vec<usize> {
        match self {
            Self::Rotating => rotated(contenders, pair).collect(),
            Self::Shuffled(rng) => {
                let mut order: Vec<usize> = (0..contenders).collect();
                rng.shuffle(&mut order);
                order
            }
        }
    }
}

/// Lets every contender have one turn per pair index, so that neither a drift of the machine nor a
/// fixed neighbour favours one. The answer is by contender, then by pair index.
///
/// # Errors
/// The first error of a turn ends it all.
pub fn take_turns<C, T, E>(
    contenders: &[C],
    pairs: usize,
    order: Order,
    turn: impl FnMut(usize, &C) -> Result<T, E>,
) -> Result<Vec<Vec<T>>, E> {
    take_turns_or_enough(contenders, (pairs, pairs), order, turn).map(|(taken, _)| taken)
}

/// As [`take_turns`], but an error after `enough` pairs ends the turns and is returned beside what
/// was taken: the pair that it broke is left out.
///
/// # Errors
/// An error before that.
#[allow(clippy::type_complexity)] // what was taken, and what ended it
pub fn take_turns_or_enough<C, T, E>(
    contenders: &[C],
    (pairs, enough): (usize, usize),
    mut order: Order,
    mut turn: impl FnMut(usize, &C) -> Result<T, E>,
) -> Result<(Vec<Vec<T>>, Option<E>), E> {
    let mut taken: Vec<Vec<T>> = contenders.iter().map(|_| Vec::with_capacity(pairs)).collect();
    for pair in 0..pairs {
        for nth in order.of(contenders.len(), pair) {
            match turn(pair, &contenders[nth]) {
                Ok(result) => taken[nth].push(result),
                Err(error) if pair < enough => return Err(error),
                Err(error) => {
                    taken.iter_mut().for_each(|results| results.truncate(pair));
                    return Ok((taken, Some(error)));
                }
            }
        }
    }
    Ok((taken, None))
}

/// Rotated by one each time, and turned round every second cycle.
fn rotated(contenders: usize, pair: usize) -> impl Iterator<Item = usize> {
    let backwards = contenders > 0 && (pair / contenders) % 2 == 1;
    (0..contenders).map(move |place| {
        let nth = (place + pair) % contenders;
        if backwards { contenders - 1 - nth } else { nth }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_every_place() {
        let orders: Vec<Vec<usize>> = (0..6).map(|pair| rotated(3, pair).collect()).collect();
        assert_eq!(orders[..3], [vec![0, 1, 2], vec![1, 2, 0], vec![2, 0, 1]]);
        assert_eq!(orders[3..], [vec![2, 1, 0], vec![1, 0, 2], vec![0, 2, 1]]);
    }

    #[test]
    fn a_lot_gives_each_one_turn_and_no_fixed_order() {
        let mut order = Order::Shuffled(Rng::with_seed(1));
        let mut orders: Vec<Vec<usize>> = (0..40).map(|pair| order.of(2, pair)).collect();
        assert!(orders.iter().all(|order| order.contains(&0) && order.contains(&1)));
        orders.dedup();
        assert!(orders.len() > 10, "{orders:?}");
    }

    #[test]
    fn an_error_after_enough_pairs_keeps_those_that_are_whole() {
        let mut calls = 0;
        let mut turns = |fails_at: usize| {
            calls = 0;
            take_turns_or_enough(&['a', 'b'], (4, 2), Order::Rotating, |pair, name| {
                calls += 1;
                if calls > fails_at { Err(()) } else { Ok(format!("{name}{pair}")) }
            })
        };
        assert_eq!(turns(3), Err(()));
        let two = vec![vec!["a0".into(), "a1".into()], vec!["b0".into(), "b1".into()]];
        assert_eq!(turns(5), Ok((two, Some(()))));
        let (all, ended) = turns(8).unwrap();
        assert_eq!((all[0].len(), all[1].len(), ended), (4, 4, None));
    }

    #[test]
    fn turns_are_filed_by_contender() {
        let mut calls = Vec::new();
        let taken = take_turns(&["a", "b"], 3, Order::Rotating, |pair, name| {
            calls.push(format!("{name}{pair}"));
            Ok::<_, ()>(format!("{name}{pair}"))
        });
        assert_eq!(
            taken,
            Ok(vec![
                vec!["a0".into(), "a1".into(), "a2".into()],
                vec!["b0".into(), "b1".into(), "b2".into()],
            ])
        );
        assert_eq!(calls, ["a0", "b0", "b1", "a1", "b2", "a2"]);
    }

    #[test]
    fn the_first_error_ends_it() {
        let mut calls = 0;
        let result: Result<Vec<Vec<()>>, _> = take_turns(&[0, 1], 5, Order::Rotating, |pair, _| {
            calls += 1;
            if pair == 1 { Err("no") } else { Ok(()) }
        });
        assert_eq!((result, calls), (Err("no"), 3));
    }
}
