//! This process's place in a pool.

use std::sync::{Arc, Mutex, OnceLock};

use vshmem_mem::{AtomicU32, AtomicU64, Ordering, seconds_now};
use vshmem_sync::{
    Claimant, Desk, Doorbell, Fault, RoomWait, Seat, Seats, Spin, Txn, WaitWords, claim_cell,
    field, load_cell, load_value, load_word, with_lock,
};
use vshmem_wire::{
    AGENT_STARTER, AttachSlot, Cell, ClientName, ClientSlot, ClientState, DomainSlot, DomainState,
    Holding, Layout, Party, Registry, ThreadSlot,
};

use crate::answerers::Answerers;
use crate::domain::{self, DomainIdentity, Seek};
use crate::heap::Larder;
use crate::neighbourhood::{Neighbourhood, WaitFile};
use crate::queue::ReserveCounter;
use crate::reclaim::Rounds;
use crate::told::Told;
use crate::undo::UndoHints;
use crate::{Errno, Pool, settle};

/// A process, told apart from others that have had its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Pid inside its domain.
    pub pid: u32,
    /// Start time in clock ticks since boot; 0 when unknown.
    pub start: u64,
    /// User id, for display.
    pub uid: u32,
}

/// Whom a ring of this domain's wait words reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Every domain of this kernel: the words lie in the pool.
    Kernel,
    /// This domain alone: the words lie in a file of its own.
    Domain,
}

/// Readies data pages before they are given to a segment. Implemented over a link.
pub trait Backing {
    /// Makes sure that `bytes` at `offset` are backed by memory, and hold zeros when `dirty`.
    ///
    /// # Errors
    /// ENOSPC or ENOMEM when they cannot be backed.
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno>;

    /// Where in the pool so many bytes are cheapest for this process: it has them mapped.
    fn at_hand(&self, bytes: u64) -> Option<u64> {
        let _ = bytes;
        None
    }
}

/// Why a process cannot join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// A table is full.
    #[error(
        "its table of {table} is full ({count}). Create the pool with a larger `--limit {table}=N`, or end some programs"
    )]
    Full {
        /// Which table.
        table: &'static str,
        /// Its size.
        count: u64,
    },
    /// This domain has been evicted.
    #[error(
        "this domain was evicted from the pool, by an operator or because it was cut off from the others with a copy of it (after a migration or a restored snapshot; the kernel's log says so); it may join again once `vshmem pool evict --dead` has confirmed its death, or after a reboot"
    )]
    Evicted,
    /// The pool does not make sense.
    #[error("the pool is damaged ({0:?}). `vshmem pool check` says more")]
    Damaged(Fault),
}

impl From<Fault> for JoinError {
    fn from(fault: Fault) -> Self {
        if fault == Fault::Evicted { Self::Evicted } else { Self::Damaged(fault) }
    }
}

/// A client slot kept for a child that is about to be forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildSlot(ClientName);

/// This process as a client of a pool.
#[derive(Debug)]
pub struct Member {
    pool: Arc<Pool>,
    domain: AtomicU32,
    epoch: AtomicU32,
    /// The domain's part of the name while joining.
    digest: AtomicU64,
    /// Word of the name.
    client: AtomicU64,
    pid: AtomicU32,
    pub(crate) seats: Seats,
    pub(crate) larder: Larder,
    pub(crate) words: WaitWords,
    pub(crate) neighbourhood: Option<Neighbourhood>,
    pub(crate) spin: Spin,
    /// How long this process looks for room in a full ring.
    pub(crate) room: RoomWait,
    /// When the next queue gets chunks in reserve.
    pub(crate) reserve: ReserveCounter,
    /// Where a receiver keeps a long text until the message is its own.
    pub(crate) text: Mutex<Vec<u8>>,
    pub(crate) answerers: Answerers,
    pub(crate) undo_hints: UndoHints,
    pub(crate) told: Told,
    pub(crate) rounds: Rounds,
    pub(crate) reach: Reach,
    pub(crate) doorbell: OnceLock<Arc<dyn Doorbell>>,
    vigil: OnceLock<fn()>,
}

/// Whether the slot still holds the client that `client` names.
pub(crate) fn is_in(txn: &mut Txn<'_>, slot: u64, client: ClientName) -> Result<bool, Fault> {
    let taken = txn.get_word(field!(slot, ClientSlot, taken))?;
    Ok(client.slot().is_some_and(|index| ClientName::new(index, taken) == client))
}

/// Whether two start times are those of one process. Of what is not known nothing can be said. In
/// time namespaces that are shifted by a part of a tick, one process may be told two that are one
/// apart.
fn is_same_start(one: u64, other: u64) -> bool {
    one != 0 && other != 0 && one.abs_diff(other) <= 1
}

fn start_in(txn: &mut Txn<'_>, slot: u64) -> Result<u64, Fault> {
    let low = txn.get(field!(slot, ClientSlot, start_low))?;
    let high = txn.get(field!(slot, ClientSlot, start_high))?;
    Ok(u64::from(high) << 32 | u64::from(low))
}

/// Offset of a client slot.
pub(crate) fn client_at(layout: &Layout, index: u32) -> Result<u64, Fault> {
    layout.clients.at(index).ok_or(Fault::corrupt(layout.clients.offset, "no such client slot"))
}

/// Offset of a client's slot, whoever is in it by now.
pub(crate) fn slot_of(layout: &Layout, client: ClientName) -> Result<u64, Fault> {
    client_at(layout, client.slot().unwrap_or(u32::MAX))
}

/// How copying a list of attaches went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied {
    /// All of them are there twice now.
    All,
    /// There are not enough records, or a segment has gone.
    NoRoom,
    /// The list changed on the way.
    Changed,
}

/// A slot that `enter` has found.
#[derive(Debug, Clone, Copy)]
struct Entered {
    client: ClientName,
    /// It is this very process's, from before an exec.
    before_exec: bool,
}

/// Domain of a process that does not know its own yet.
const UNKNOWN_DOMAIN: u32 = 127;

/// `VSHMEM_SPIN=0` forbids waiting threads to look before they sleep.
fn may_not_spin() -> bool {
    std::env::var_os("VSHMEM_SPIN").is_some_and(|word| word == "0")
}

impl Member {
    /// Joins: finds or makes the domain's slot, and this process's.
    ///
    /// A process that has just been exec'ed finds the slot that it had before: its adjustments
    /// (SEM_UNDO) go on.
    ///
    /// # Errors
    /// Says which table is full, or that the pool is damaged.
    pub fn join(
        pool: Arc<Pool>,
        identity: &DomainIdentity,
        process: Process,
        words: Option<WaitFile>,
        reach: Reach,
    ) -> Result<Self, JoinError> {
        Self::join_over_dead(pool, identity, process, words, reach, &|_, _| false)
    }

    /// As [`Member::join`]. When the client table is full, first buries those clients of this
    /// domain of which `gone` says, by pid and start time, that they are no more.
    ///
    /// # Errors
    /// As [`Member::join`].
    pub fn join_over_dead(
        pool: Arc<Pool>,
        identity: &DomainIdentity,
        process: Process,
        words: Option<WaitFile>,
        reach: Reach,
        gone: &dyn Fn(u32, u64) -> bool,
    ) -> Result<Self, JoinError> {
        let threads = pool.layout().threads;
        let digest = identity.digest();
        let (words, neighbourhood) = match words {
            Some(file) => (WaitWords::new(file.words, 0, 4), file.neighbourhood),
            None => {
                let base = field!(threads.offset, ThreadSlot, doorbell);
                (WaitWords::new(Arc::clone(pool.map()), base, threads.stride), None)
            }
        };
        let member = Self {
            domain: AtomicU32::new(UNKNOWN_DOMAIN),
            epoch: AtomicU32::new(0),
            client: AtomicU64::new(ClientName::joining(digest, process.pid).word()),
            digest: AtomicU64::new(digest),
            pid: AtomicU32::new(process.pid),
            seats: Seats::new(),
            larder: Larder::new(),
            words,
            neighbourhood,
            spin: Spin::new(may_not_spin()),
            room: RoomWait::new(may_not_spin()),
            reserve: ReserveCounter::default(),
            text: Mutex::new(vec![0; vshmem_wire::RING_TEXT_BYTES as usize]),
            answerers: Answerers::default(),
            undo_hints: UndoHints::new(),
            told: Told::new(pool.layout()),
            rounds: Rounds::default(),
            reach,
            doorbell: OnceLock::new(),
            vigil: OnceLock::new(),
            pool,
        };
        match member.find_place(identity, process, gone) {
            Ok(client) => member.settle_in(client)?,
            Err(error) => {
                let (map, threads) = (member.pool.map(), member.pool.layout().threads);
                member.seats.give_back(map, threads, member.as_stranger());
                return Err(error);
            }
        }
        Ok(member)
    }

    /// Everything of joining that may be refused. Returns the client's name.
    fn find_place(
        &self,
        identity: &DomainIdentity,
        process: Process,
        gone: &dyn Fn(u32, u64) -> bool,
    ) -> Result<ClientName, JoinError> {
        let entered = match self.enter_through(identity, process, gone) {
            // The slot of a domain without clients is given to another one when there is no other.
            Err(JoinError::Evicted) => self.enter_through(identity, process, gone),
            entered => entered,
        };
        let Entered { client, before_exec } = entered?;
        if before_exec {
            // What the former program left is given back; its adjustments stay.
            let seat = self.stranger_seat()?;
            let desk = self.desk_of(&seat);
            self.leave_threads(&desk, client)?;
            self.leave_attaches(&desk, client)?;
        }
        Ok(client)
    }

    fn enter_through(
        &self,
        identity: &DomainIdentity,
        process: Process,
        gone: &dyn Fn(u32, u64) -> bool,
    ) -> Result<Entered, JoinError> {
        self.seats.stand_always();
        self.enter_domain(identity)?;
        self.stand_on_domain()?;
        match self.enter(process, None) {
            Err(JoinError::Full { table: "clients", .. }) => {
                self.bury_gone(gone)?;
                self.enter(process, None)
            }
            entered => entered,
        }
    }

    fn enter_domain(&self, identity: &DomainIdentity) -> Result<(), JoinError> {
        // Each round but the last buries a former self.
        for _ in 0..=self.pool.layout().domains.count {
            let pool = Arc::clone(&self.pool);
            let layout = pool.layout();
            let sought = {
                let seat = self.stranger_seat()?;
                let desk = self.desk_of(&seat);
                with_lock(desk, pool.registry_lock(), "join-domain", |txn| {
                    let mut used = [false; 128];
                    let high = txn.get(field!(layout.registry, Registry, clients_high))?;
                    for client in 0..high.min(layout.clients.count as u32) {
                        let slot = client_at(layout, client)?;
                        if txn.get(field!(slot, ClientSlot, state))? != ClientState::Free as u32 {
                            let domain = txn.get(field!(slot, ClientSlot, domain))?;
                            used[domain as usize & 127] = true;
                        }
                    }
                    domain::seek(txn, &pool, identity, seconds_now(), |index| {
                        Ok(!used[index as usize & 127])
                    })
                })?
            };
            match sought {
                Seek::Mine(index) | Seek::Taken(index) => {
                    self.epoch.store(pool.epoch_of(index)?, Ordering::Relaxed);
                    self.domain.store(index, Ordering::Release);
                    return Ok(());
                }
                Seek::Former(index) => {
                    let seat = self.stranger_seat()?;
                    let epoch = self.pool.epoch_of(index)?;
                    self.bury_domain_from(&seat, index, epoch, DomainState::Dead)?;
                }
                Seek::Evicted => return Err(JoinError::Evicted),
                Seek::Full => {
                    return Err(JoinError::Full { table: "domains", count: layout.domains.count });
                }
            }
        }
        let table = self.pool.layout().domains.offset;
        Err(Fault::corrupt(table, "a domain that cannot be buried").into())
    }

    /// A process that is only just joining stands as its domain does.
    fn stand_on_domain(&self) -> Result<(), Fault> {
        let slot = domain::slot_at(self.pool.layout(), self.domain())?;
        let state_at = field!(slot, DomainSlot, state);
        let state = load_cell(self.pool.map(), state_at)?;
        let epoch = load_value(self.pool.map(), field!(slot, DomainSlot, epoch))?;
        if state.value() != DomainState::Alive as u32 || epoch != self.epoch() {
            return Err(Fault::Evicted);
        }
        self.seats.stand_on(state_at, state);
        Ok(())
    }

    /// Takes a client slot: the one that this process had before an exec, the one that its parent
    /// has kept for it, or a new one.
    fn enter(&self, process: Process, kept: Option<ChildSlot>) -> Result<Entered, JoinError> {
        let pool = &self.pool;
        let layout = pool.layout();
        let (domain, epoch) = (self.domain(), self.epoch());
        let seat = self.stranger_seat()?;
        let desk = self.desk_of(&seat);
        let home = domain::slot_at(layout, domain)?;
        let taken = with_lock(desk, pool.registry_lock(), "join", |txn| {
            // It may have been evicted since this process found it.
            if txn.get(field!(home, DomainSlot, state))? != DomainState::Alive as u32
                || txn.get(field!(home, DomainSlot, epoch))? != epoch
            {
                return Err(Fault::Evicted);
            }
            if let Some(ChildSlot(client)) = kept {
                let slot = slot_of(layout, client)?;
                let reserved =
                    txn.get(field!(slot, ClientSlot, state))? == ClientState::Reserved as u32;
                if reserved && is_in(txn, slot, client)? {
                    self.name_words(txn, slot)?;
                    write_client(txn, slot, ClientState::Active, domain, epoch, process)?;
                    return Ok(Some(Entered { client, before_exec: false }));
                }
            }
            let high_at = field!(layout.registry, Registry, clients_high);
            let high = txn.get(high_at)?.min(layout.clients.count as u32);
            for client in 0..high {
                let slot = client_at(layout, client)?;
                if txn.get(field!(slot, ClientSlot, state))? == ClientState::Active as u32
                    && txn.get(field!(slot, ClientSlot, pid))? == process.pid
                    && txn.get(field!(slot, ClientSlot, domain))? == domain
                    && is_same_start(start_in(txn, slot)?, process.start)
                {
                    let taken = txn.get_word(field!(slot, ClientSlot, taken))?;
                    let client = ClientName::new(client, taken);
                    // It may be another user by now.
                    self.name_words(txn, slot)?;
                    return Ok(Some(Entered { client, before_exec: true }));
                }
            }
            let Some(client) = take_client(txn, layout)? else { return Ok(None) };
            let slot = slot_of(layout, client)?;
            self.name_words(txn, slot)?;
            write_client(txn, slot, ClientState::Active, domain, epoch, process)?;
            Ok(Some(Entered { client, before_exec: false }))
        })?;
        taken.ok_or(JoinError::Full { table: "clients", count: layout.clients.count })
    }

    /// Notes in a client's slot whose file this process's wait words lie in.
    fn name_words(&self, txn: &mut Txn<'_>, slot: u64) -> Result<(), Fault> {
        let owner = self.neighbourhood.as_ref().map(|here| here.own);
        let uid = owner.map_or(0, |owner| owner.uid.wrapping_add(1));
        txn.update(field!(slot, ClientSlot, words_uid), uid)?;
        txn.update(field!(slot, ClientSlot, words_nonce), owner.map_or(0, |owner| owner.nonce))
    }

    /// A thread slot for the time of joining: its owner is nobody yet.
    fn stranger_seat(&self) -> Result<Seat<'_>, JoinError> {
        let threads = self.pool.layout().threads;
        let claimant = Claimant { client: self.as_stranger(), list: None };
        self.seats
            .take(self.pool.map(), threads, claimant)?
            .ok_or(JoinError::Full { table: "threads", count: threads.count })
    }

    /// What this process is called while it is no client.
    fn as_stranger(&self) -> ClientName {
        let digest = self.digest.load(Ordering::Relaxed);
        ClientName::joining(digest, self.pid.load(Ordering::Relaxed))
    }

    /// Buries the clients of this domain that are no more.
    fn bury_gone(&self, gone: &dyn Fn(u32, u64) -> bool) -> Result<(), JoinError> {
        let seat = self.stranger_seat()?;
        let desk = self.desk_of(&seat);
        let rows = self.pool.residents(self.domain()).map_err(|_| {
            JoinError::Damaged(Fault::corrupt(self.pool.layout().clients.offset, "client table"))
        })?;
        for row in rows.into_iter().filter(|row| gone(row.pid, row.start)) {
            self.bury_client(&desk, row.name)?;
        }
        Ok(())
    }

    /// Ends the time of joining: from now on this process works as `client`.
    ///
    /// It works for as long as its slot says what it says now. Who evicts its domain, or buries it,
    /// changes that, and then every change that it makes is refused.
    fn settle_in(&self, client: ClientName) -> Result<(), Fault> {
        let map = self.pool.map();
        let threads = self.pool.layout().threads;
        let slot = slot_of(self.pool.layout(), client)?;
        let state_at = field!(slot, ClientSlot, state);
        let state = load_cell(map, state_at)?;
        let mine =
            state.value() == ClientState::Active as u32 && self.pool.still_holds(slot, client)?;
        self.seats.give_back(map, threads, self.as_stranger());
        if !mine {
            return Err(Fault::Evicted);
        }
        self.seats.stand_on(state_at, state);
        self.client.store(client.word(), Ordering::Release);
        Ok(())
    }

    /// Whether this process is still the member that it was: it may have been evicted, with its
    /// domain, while it was paused.
    #[inline]
    pub(crate) fn stands(&self) -> bool {
        self.seats.stand(self.pool.map()).is_ok()
    }

    /// Keeps a client slot, with all attaches of this process, for a child.
    ///
    /// # Errors
    /// EAGAIN when a table is full: so says fork.
    pub fn reserve_child(&self) -> Result<ChildSlot, Errno> {
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        /// Tries before a fork is refused because other threads attach and detach all the time.
        const TRIES: u32 = 100;
        for _ in 0..TRIES {
            let client = self.reserve_slot(&desk)?;
            match self.copy_attaches(&desk, self.me(), client) {
                Ok(Copied::All) => return Ok(ChildSlot(client)),
                Ok(Copied::Changed) => self.bury_client(&desk, client).map_err(|_| Errno::IO)?,
                Ok(Copied::NoRoom) | Err(_) => {
                    let _ = self.bury_client(&desk, client);
                    return Err(Errno::AGAIN);
                }
            }
        }
        Err(Errno::AGAIN)
    }

    fn reserve_slot(&self, desk: &Desk<'_>) -> Result<ClientName, Errno> {
        let pool = &self.pool;
        let layout = pool.layout();
        let parent = Process { pid: self.pid.load(Ordering::Relaxed), start: 0, uid: 0 };
        let verdict = with_lock(*desk, pool.registry_lock(), "fork-reserve", |txn| {
            let Some(client) = take_client(txn, layout)? else { return Ok(Err(Errno::AGAIN)) };
            let slot = slot_of(layout, client)?;
            let (domain, epoch) = (self.domain(), self.epoch());
            write_client(txn, slot, ClientState::Reserved, domain, epoch, parent)?;
            Ok(Ok(client))
        });
        settle(verdict)
    }

    /// Notes the pid of the child that a slot was kept for, so that its death is noticed even if it
    /// dies before it has taken the slot over.
    pub fn name_child(&self, kept: ChildSlot, pid: u32) {
        let name = || -> Result<(), Fault> {
            let slot = slot_of(self.pool.layout(), kept.0)?;
            let Ok(seat) = self.seat() else { return Ok(()) };
            let pid_at = field!(slot, ClientSlot, pid);
            with_lock(self.desk_of(&seat), self.pool.registry_lock(), "fork-name", |txn| {
                if txn.get(field!(slot, ClientSlot, state))? == ClientState::Reserved as u32
                    && is_in(txn, slot, kept.0)?
                    && txn.get(pid_at)? == self.pid.load(Ordering::Relaxed)
                {
                    txn.set(pid_at, pid)?;
                }
                Ok(())
            })
        };
        // Without the name the slot is given back when the agent sees the parent gone.
        let _ = name();
    }

    /// Gives a kept slot back: the fork has failed.
    pub fn cancel_child(&self, kept: ChildSlot) {
        if let Ok(seat) = self.seat() {
            let _ = self.bury_client(&self.desk_of(&seat), kept.0);
        }
    }

    /// To be called in the child: takes the kept slot over. `elsewhere` is its domain if that may be another one than its
    /// parent's: it is the first process of a PID namespace, or its parent is outside.
    ///
    /// # Errors
    /// As [`Member::join`]; the child is then no member.
    pub fn become_child(
        &self,
        kept: Option<ChildSlot>,
        process: Process,
        elsewhere: Option<&DomainIdentity>,
    ) -> Result<(), JoinError> {
        self.seats.forget();
        self.larder.forget();
        self.pid.store(process.pid, Ordering::Release);
        let placed = self.find_childs_place(kept, process, elsewhere);
        if placed.is_err() {
            let (map, threads) = (self.pool.map(), self.pool.layout().threads);
            self.seats.give_back(map, threads, self.as_stranger());
            self.renounce();
        }
        placed
    }

    /// Everything of becoming a child that may be refused.
    fn find_childs_place(
        &self,
        kept: Option<ChildSlot>,
        process: Process,
        elsewhere: Option<&DomainIdentity>,
    ) -> Result<(), JoinError> {
        if let Some(identity) = elsewhere {
            self.digest.store(identity.digest(), Ordering::Release);
            self.client.store(self.as_stranger().word(), Ordering::Release);
            self.seats.stand_always();
            self.enter_domain(identity)?;
        }
        self.client.store(self.as_stranger().word(), Ordering::Release);
        self.stand_on_domain()?;
        let entered = self.enter(process, kept)?;
        Ok(self.settle_in(entered.client)?)
    }

    /// To be called in a child that cannot become a member: it is not its parent, and none of its calls may act as that.
    pub fn renounce(&self) {
        self.seats.forget();
        self.larder.forget();
        self.client.store(self.as_stranger().word(), Ordering::Release);
        // No cell is ever written so often.
        self.seats.stand_on(self.pool.registry_lock(), Cell { word: 0, tag: u64::MAX });
    }

    /// Whether this process is in the slot that its parent had kept for it, attaches and all. It is not
    /// when the parent was killed before it had named the child, and was buried.
    #[must_use]
    pub fn is_in(&self, kept: ChildSlot) -> bool {
        self.me() == kept.0
    }

    /// Whether other threads of this process are in the middle of calls: asleep, as a rule.
    #[must_use]
    pub fn others_busy(&self) -> bool {
        self.seats.others_busy()
    }

    /// Ends the membership of a process that goes on: gives up what it holds, and its slot.
    ///
    /// Nothing happens when the domain has been evicted or buried meanwhile: what lies in the slot
    /// is not this process's any more.
    ///
    /// # Errors
    /// EIO when the pool does not make sense; ENOMEM when there is no thread slot to work from.
    pub fn leave(self) -> Result<(), Errno> {
        if !self.in_good_standing()? {
            return Ok(());
        }
        self.farewell()?;
        let (map, threads) = (self.pool.map(), self.pool.layout().threads);
        let client = self.me();
        // The burial frees the client's thread slots, so it must not work from one of them.
        self.seats.forget();
        self.client.store(self.as_stranger().word(), Ordering::Release);
        self.seats.stand_always();
        let seat = self.stranger_seat().map_err(|_| Errno::NOMEM)?;
        let left = settle(self.bury_client(&self.desk_of(&seat), client).map(Ok));
        drop(seat);
        self.seats.give_back(map, threads, self.as_stranger());
        left
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Index of this domain.
    #[must_use]
    pub fn domain(&self) -> u32 {
        // Written before this process is a member, and in a child before it is one.
        self.domain.load(Ordering::Relaxed)
    }

    fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Client slot of this process.
    #[must_use]
    pub fn client(&self) -> u32 {
        self.me().slot().unwrap_or(u32::MAX)
    }

    /// This process's name in the pool, which no other process gets.
    #[must_use]
    pub fn name(&self) -> ClientName {
        self.me()
    }

    /// Whether the process of a name may still act: it is a member, or was evicted and is not known
    /// to be dead.
    #[must_use]
    pub fn may_act(&self, name: ClientName) -> bool {
        let look = || -> Result<bool, Fault> {
            let slot = slot_of(self.pool.layout(), name)?;
            let state = load_value(self.pool.map(), field!(slot, ClientSlot, state))?;
            let there =
                state == ClientState::Active as u32 || state == ClientState::Quarantined as u32;
            Ok(there && self.pool.still_holds(slot, name)?)
        };
        look().unwrap_or(false)
    }

    /// As [`Member::may_act`], for 32 bits of a name ([`ClientName::short`]).
    #[must_use]
    pub fn may_act_as(&self, short: u32) -> bool {
        let holder = self.pool.named(ClientName::slot_in(short));
        holder.is_ok_and(|holder| holder.short() == short && self.may_act(holder))
    }

    /// This process's name in the pool.
    #[inline]
    pub(crate) fn me(&self) -> ClientName {
        // Nobody but this process writes it, so it is a name.
        let word = self.client.load(Ordering::Relaxed);
        ClientName::of(word).unwrap_or_else(|| self.as_stranger())
    }

    /// Whether `pid` is the process that has joined: a vfork child runs in its parent's memory.
    #[must_use]
    pub fn is_process(&self, pid: rustix::process::Pid) -> bool {
        self.pid.load(Ordering::Relaxed) == pid.as_raw_nonzero().get() as u32
    }

    /// This process as others see it.
    #[inline]
    pub(crate) fn party(&self) -> Party {
        Party { domain: self.domain(), pid: self.pid.load(Ordering::Relaxed) }
    }

    /// The pid that this domain's programs are told for `party`: 0 for one of another domain, as
    /// Linux does across PID namespaces.
    #[must_use]
    pub(crate) fn pid_here(&self, party: u32) -> u32 {
        let party = Party::unpack(party);
        if party.domain == self.domain() { party.pid } else { 0 }
    }

    /// A thread slot for one call.
    #[inline]
    pub(crate) fn seat(&self) -> Result<Seat<'_>, Errno> {
        if !self.stands() {
            return Err(Errno::IO);
        }
        let (map, layout) = (self.pool.map(), self.pool.layout());
        let client = self.me();
        let list = slot_of(layout, client).map(|slot| field!(slot, ClientSlot, threads));
        let claimant = Claimant { client, list: list.ok() };
        let take = || self.seats.take(map, layout.threads, claimant).map_err(|_| Errno::IO);
        match take()? {
            Some(seat) => {
                if seat.is_surplus() {
                    self.recover_abandoned(&seat);
                }
                Ok(seat)
            }
            None if settle(self.pool.free_dead_threads().map(Ok))? => take()?.ok_or(Errno::NOMEM),
            None => Err(Errno::NOMEM),
        }
    }

    /// Out of line: it takes stack that no other call needs.
    #[cold]
    #[inline(never)]
    fn recover_abandoned(&self, seat: &Seat<'_>) {
        let desk = self.desk_of(seat);
        self.seats.recover_abandoned(seat, |slot| self.recover_thread(&desk, slot));
    }

    #[inline]
    pub(crate) fn desk_of<'a>(&'a self, seat: &Seat<'_>) -> Desk<'a> {
        let layout = self.pool.layout();
        Desk {
            map: self.pool.map(),
            threads: layout.threads,
            words_end: layout.data.offset,
            slot: seat.slot,
            seats: &self.seats,
        }
    }

    /// Copies the attaches of `from`, which is this process, to `to`. Other threads may attach and
    /// detach meanwhile, so the list has to come out the same twice.
    fn copy_attaches(
        &self,
        desk: &Desk<'_>,
        from: ClientName,
        to: ClientName,
    ) -> Result<Copied, Fault> {
        let layout = self.pool.layout();
        let head_at = field!(slot_of(layout, from)?, ClientSlot, attaches);
        let head = load_cell(desk.map, head_at)?;
        let mut next = head.value();
        // A client has one record of a segment at most.
        for _ in 0..=layout.attaches.count.min(layout.shm.count) {
            let Some(record) = next.checked_sub(1) else {
                let same = load_cell(desk.map, head_at)? == head;
                return Ok(if same { Copied::All } else { Copied::Changed });
            };
            let at = crate::segment::attach_at(layout, record)?;
            let mine = |desk: &Desk<'_>| -> Result<bool, Fault> {
                Ok(load_word(desk.map, field!(at, AttachSlot, client))? == from.word())
            };
            let segment = load_value(desk.map, field!(at, AttachSlot, segment))?;
            let count = load_value(desk.map, field!(at, AttachSlot, count))?;
            next = load_value(desk.map, field!(at, AttachSlot, next))?;
            if segment == 0 || !mine(desk)? {
                return Ok(Copied::Changed);
            }
            if !self.add_attaches(desk, to, segment - 1, count)? {
                return Ok(if mine(desk)? { Copied::NoRoom } else { Copied::Changed });
            }
        }
        Err(Fault::corrupt(layout.attaches.offset, "an attach list without an end"))
    }

    /// Has `look` called about once a second by every thread that sleeps, outside any lock; it must
    /// not use the heap. Only the first one counts.
    pub fn keep_vigil(&self, look: fn()) {
        let _ = self.vigil.set(look);
    }

    pub(crate) fn vigil(&self) {
        if let Some(look) = self.vigil.get() {
            look();
        }
    }

    /// Whether it falls to this process to start an agent for its domain: there is none, and nobody
    /// else is about to start one. `exists` tells whether there is a process of a pid here.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn must_start_agent(&self, exists: fn(u32) -> bool) -> Result<bool, Errno> {
        let look = || -> Result<bool, Fault> {
            let map = self.pool.map();
            let at = field!(domain::slot_at(self.pool.layout(), self.domain())?, DomainSlot, agent);
            let me = self.pid.load(Ordering::Relaxed) | AGENT_STARTER;
            let now = load_value(map, at)?;
            if now == me {
                // What this process has started before has not come up.
                return Ok(true);
            }
            let pid = now & !AGENT_STARTER;
            if pid != 0 && exists(pid) {
                return Ok(false);
            }
            claim_cell(map, at, now, me)
        };
        look().map_err(|_| Errno::IO)
    }

    /// If it is this process that was to start an agent, leaves that to others: it cannot any more.
    pub fn renounce_agent(&self) {
        let renounce = || -> Result<bool, Fault> {
            let map = self.pool.map();
            let at = field!(domain::slot_at(self.pool.layout(), self.domain())?, DomainSlot, agent);
            let me = self.pid.load(Ordering::Relaxed) | AGENT_STARTER;
            if load_value(map, at)? == me { claim_cell(map, at, me, 0) } else { Ok(false) }
        };
        // Whoever finds a process of that number gone starts one all the same.
        let _ = renounce();
    }

    /// Renews this domain's lease; for the agent.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn renew_lease(&self, agent_pid: u32) -> Result<(), Errno> {
        let renew = || -> Result<(), Fault> {
            let slot = domain::slot_at(self.pool.layout(), self.domain())?;
            let map = self.pool.map();
            for (at, value) in [
                (field!(slot, DomainSlot, renewed), seconds_now()),
                (field!(slot, DomainSlot, agent), agent_pid),
            ] {
                let before = load_value(map, at)?;
                if before != value {
                    claim_cell(map, at, before, value)?;
                }
            }
            let lease = field!(slot, DomainSlot, lease);
            let before = load_value(map, lease)?;
            claim_cell(map, lease, before, before.wrapping_add(1))?;
            Ok(())
        };
        renew().map_err(|_| Errno::IO)
    }

    /// Whether this domain is still a member in good standing: it may have been evicted while it
    /// was paused.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn in_good_standing(&self) -> Result<bool, Errno> {
        let look = || -> Result<bool, Fault> {
            let slot = domain::slot_at(self.pool.layout(), self.domain())?;
            let map = self.pool.map();
            let state = load_value(map, field!(slot, DomainSlot, state))?;
            let epoch = load_value(map, field!(slot, DomainSlot, epoch))?;
            Ok(state == DomainState::Alive as u32 && epoch == self.epoch())
        };
        look().map_err(|_| Errno::IO)
    }
}

/// Takes the client slot that has been free for longest, and returns the name of who is in it now.
fn take_client(txn: &mut Txn<'_>, layout: &Layout) -> Result<Option<ClientName>, Fault> {
    let (first_at, last_at) = (
        field!(layout.registry, Registry, free_clients),
        field!(layout.registry, Registry, free_clients_last),
    );
    let high_at = field!(layout.registry, Registry, clients_high);
    let index = match txn.get(first_at)?.checked_sub(1) {
        Some(index) => {
            let next = txn.get(field!(client_at(layout, index)?, ClientSlot, next))?;
            txn.set(first_at, next)?;
            if next == 0 {
                txn.set(last_at, 0)?;
            }
            index
        }
        None => {
            let high = txn.get(high_at)?;
            if u64::from(high) >= layout.clients.count {
                return Ok(None);
            }
            txn.set(high_at, high + 1)?;
            high
        }
    };
    let slot = client_at(layout, index)?;
    if txn.get(field!(slot, ClientSlot, state))? != ClientState::Free as u32 {
        return Err(Fault::corrupt(slot, "a client in the queue of free slots"));
    }
    let taken_at = field!(slot, ClientSlot, taken);
    let taken = txn.get_word(taken_at)?.wrapping_add(1);
    let client = ClientName::new(index, taken);
    txn.set_word(taken_at, taken)?;
    for list in [field!(slot, ClientSlot, threads), field!(slot, ClientSlot, undos)] {
        txn.set_word(list, Holding::empty(client).pack())?;
    }
    Ok(Some(client))
}

/// Whether a client slot is in the queue of free slots.
pub(crate) fn is_queued(txn: &mut Txn<'_>, layout: &Layout, index: u32) -> Result<bool, Fault> {
    let mut next = txn.get(field!(layout.registry, Registry, free_clients))?;
    for _ in 0..=layout.clients.count {
        let Some(queued) = next.checked_sub(1) else { return Ok(false) };
        if queued == index {
            return Ok(true);
        }
        next = txn.get(field!(client_at(layout, queued)?, ClientSlot, next))?;
    }
    Err(Fault::corrupt(layout.registry, "a queue of free client slots without an end"))
}

/// Puts a client slot that has become free at the end of the queue of free slots.
pub(crate) fn free_client(txn: &mut Txn<'_>, layout: &Layout, index: u32) -> Result<(), Fault> {
    let (first_at, last_at) = (
        field!(layout.registry, Registry, free_clients),
        field!(layout.registry, Registry, free_clients_last),
    );
    let slot = client_at(layout, index)?;
    txn.set(field!(slot, ClientSlot, state), ClientState::Free as u32)?;
    txn.update(field!(slot, ClientSlot, next), 0)?;
    match txn.get(last_at)?.checked_sub(1) {
        Some(last) => txn.set(field!(client_at(layout, last)?, ClientSlot, next), index + 1)?,
        None => txn.set(first_at, index + 1)?,
    }
    txn.set(last_at, index + 1)
}

fn write_client(
    txn: &mut Txn<'_>,
    slot: u64,
    state: ClientState,
    domain: u32,
    epoch: u32,
    process: Process,
) -> Result<(), Fault> {
    txn.update(field!(slot, ClientSlot, domain), domain)?;
    txn.update(field!(slot, ClientSlot, epoch), epoch)?;
    txn.update(field!(slot, ClientSlot, pid), process.pid)?;
    txn.update(field!(slot, ClientSlot, start_low), process.start as u32)?;
    txn.update(field!(slot, ClientSlot, start_high), (process.start >> 32) as u32)?;
    txn.update(field!(slot, ClientSlot, uid), process.uid)?;
    txn.update(field!(slot, ClientSlot, leaving), 0)?;
    txn.update(field!(slot, ClientSlot, joined), seconds_now())?;
    txn.set(field!(slot, ClientSlot, state), state as u32)
}
