//! A guest without a virtual machine: speaks the protocol as QEMU's ivshmem-doorbell device does,
//! and takes part in the pool as a kernel of its own.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use vshmem_ipc::{Client, DomainIdentity, Process, WaitFile, WakeScope};
use vshmem_mem::Map;
use vshmem_sync::Doorbell;

/// What a device has learnt from the server.
#[derive(Debug, Default)]
pub struct Learnt {
    pub messages: Vec<(i64, bool)>,
    pub id: Option<i64>,
    pub memory: Option<OwnedFd>,
    pub peers: BTreeMap<i64, Vec<OwnedFd>>,
    pub own: Vec<OwnedFd>,
}

/// A device.
#[derive(Debug)]
pub struct Qemu {
    pub socket: UnixStream,
    pub learnt: Arc<Mutex<Learnt>>,
}

impl Qemu {
    /// Connects, and reads until the device is set up.
    pub fn connect(path: &Path, vectors: usize) -> Self {
        let qemu =
            Self { socket: UnixStream::connect(path).expect("a server"), learnt: Arc::default() };
        while qemu.learnt.lock().unwrap().own.len() < vectors {
            assert!(qemu.read(true), "the server has closed the connection");
        }
        qemu
    }

    /// Takes one message; false when there is none, or never will be.
    pub fn read(&self, wait: bool) -> bool {
        let mut bytes = [0; 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = if wait { RecvFlags::WAITALL } else { RecvFlags::DONTWAIT };
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
        if got.map(|got| got.bytes) != Ok(8) {
            return false;
        }
        let mut file = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                file = files.last();
            }
        }
        self.learn(i64::from_le_bytes(bytes), file);
        true
    }

    /// Takes what there is.
    pub fn read_all(&self) {
        while self.read(false) {}
    }

    fn learn(&self, number: i64, file: Option<OwnedFd>) {
        let mut learnt = self.learnt.lock().unwrap();
        learnt.messages.push((number, file.is_some()));
        let opening = learnt.messages.len();
        match (number, file) {
            (0, None) if opening == 1 => {}
            (id, None) if opening == 2 => learnt.id = Some(id),
            (-1, Some(file)) => learnt.memory = Some(file),
            (id, Some(file)) if Some(id) == learnt.id => learnt.own.push(file),
            (id, Some(file)) => learnt.peers.entry(id).or_default().push(file),
            (id, None) => drop(learnt.peers.remove(&id)),
        }
    }

    pub fn id(&self) -> u32 {
        self.learnt.lock().unwrap().id.unwrap() as u32
    }

    pub fn peers(&self) -> Vec<i64> {
        self.read_all();
        self.learnt.lock().unwrap().peers.keys().copied().collect()
    }

    /// Whether this device has been notified since; forgets it.
    pub fn was_notified(&self) -> bool {
        let mut count = [0; 8];
        let learnt = self.learnt.lock().unwrap();
        let nonblocking = rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&learnt.own[0], nonblocking).unwrap();
        rustix::io::read(&learnt.own[0], &mut count[..]) == Ok(8)
    }

    /// A process in the guest: a member of a kernel called `name`, by the memory that the server
    /// has handed out.
    pub fn process(&self, name: &str, pid: u32) -> Client {
        let number = self.learnt.lock().unwrap().memory.as_ref().unwrap().as_raw_fd();
        let link = vshmem_link::open(Path::new(&format!("/proc/self/fd/{number}"))).unwrap();
        let pool = Arc::new(vshmem_session::open_pool(link.as_ref()).unwrap());
        let mut boot_id = [0xb0; 16];
        for (byte, letter) in boot_id.iter_mut().zip(name.bytes()) {
            *byte = letter;
        }
        // A guest that boots again has the name that it had.
        let name = name.split('/').next().unwrap().to_owned();
        let identity = DomainIdentity { boot_id, pid_namespace: 1, born: 0, name, named: true };
        let words = Map::anonymous(pool.geometry().threads as usize * 4);
        let process = Process { pid, start: u64::from(pid) + 1, uid: 0 };
        let words = Some(WaitFile::of_one_user(Arc::new(words)));
        let this_client = Client::join(pool, &identity, process, words, WakeScope::Domain).unwrap();
        this_client.use_doorbell(Arc::new(Bell(Arc::clone(&self.learnt))));
        this_client
    }

    /// As a guest's agent does.
    pub fn announce(&self, this_client: &Client) {
        this_client.publish_address().unwrap();
    }
}

/// The doorbell register of the device.
#[derive(Debug)]
struct Bell(Arc<Mutex<Learnt>>);

impl Doorbell for Bell {
    fn own_address(&self) -> Option<u32> {
        self.0.lock().unwrap().id.and_then(|id| u32::try_from(id).ok())
    }

    fn notify(&self, address: u32) -> Result<(), Errno> {
        let learnt = self.0.lock().unwrap();
        let peer = learnt.peers.get(&i64::from(address)).ok_or(Errno::NXIO)?;
        rustix::io::write(&peer[0], &1u64.to_ne_bytes()).map(drop)
    }
}
