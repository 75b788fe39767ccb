//! Barrier: in each round a member tells another one, twice as far away as in the last, that all it
//! knows of have come. After log2 of their number all know of all.

use vshmem_mem::Ordering;

use crate::backoff::AwaitedWord;
use crate::failure::TeamError;
use crate::team::Team;

impl Team {
    /// Waits until all members have called this.
    ///
    /// # Errors
    /// [`TeamError`], when one of them does not.
    pub fn barrier(&mut self) -> Result<(), TeamError> {
        self.guarded(Self::meet)
    }

    fn meet(&mut self) -> Result<(), TeamError> {
        let members = self.shape.members();
        self.epoch += 1;
        for round in 0..self.shape.rounds() {
            let distance = 1 << round;
            let to = (self.rank + distance) % members;
            let by = (self.rank + members - distance) % members;
            let flag = self.shape.flag(to, round);
            // Pairs with the acquire of the member that waits for it.
            let stored = self.map.store(flag, self.epoch, Ordering::Release);
            stored.map_err(|_| TeamError::Corrupt(self.rank))?;
            let at = self.shape.flag(self.rank, round);
            // No member passes the next barrier without this one.
            let (least, most) = (self.epoch, self.epoch + 1);
            self.wait(AwaitedWord { at, least, most, by, is_flag: true })?;
        }
        Ok(())
    }
}
