//! How a program is linked, as its file says (elf(5)). What is not certain is `None`.

/// How it is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    /// With glibc's dynamic linker, or another that loads this library.
    Dynamic,
    /// Without a dynamic linker.
    Static,
    /// With musl's, which cannot load this library.
    Musl,
    /// For this machine's 32-bit mode.
    Narrow,
}

/// Fills the bytes from an offset of the file on; false where it has not so many.
pub trait ReadAt: Fn(u64, &mut [u8]) -> bool {}
impl<T: Fn(u64, &mut [u8]) -> bool> ReadAt for T {}

/// Own machine, and the one of its 32-bit mode.
#[cfg(target_arch = "x86_64")]
const MACHINES: (u16, u16) = (62, 3);
#[cfg(target_arch = "aarch64")]
const MACHINES: (u16, u16) = (183, 40);

/// More program headers than any program has.
const MOST_HEADERS: u64 = 64;
/// More entries than any dynamic section has.
const MOST_ENTRIES: u64 = 128;

/// A part of the file that a program header names.
#[derive(Debug, Clone, Copy)]
struct Part {
    offset: u64,
    bytes: u64,
}

/// Reads it off the file.
pub fn linking(read: &impl ReadAt) -> Option<Linking> {
    let head: [u8; 64] = read_array(read, 0)?;
    const LITTLE_ENDIAN: u8 = 1;
    if !head.starts_with(b"\x7fELF") || head[5] != LITTLE_ENDIAN {
        return None;
    }
    let (own, narrow) = MACHINES;
    match (head[4], half(&head, 18)) {
        (1, machine) if machine == own || machine == narrow => return Some(Linking::Narrow),
        (2, machine) if machine == own => {}
        // An emulator may run it.
        _ => return None,
    }
    let headers = Part { offset: long(&head, 32), bytes: u64::from(half(&head, 56)) };
    if let Some(name) = part(read, headers, INTERPRETER)? {
        return Some(if is_musl(read, name)? { Linking::Musl } else { Linking::Dynamic });
    }
    const EXECUTABLE: u16 = 2;
    let is_program = half(&head, 16) == EXECUTABLE
        || part(read, headers, DYNAMIC)?.is_some_and(|dynamic| is_marked(read, dynamic));
    // Otherwise it may be a dynamic linker itself.
    is_program.then_some(Linking::Static)
}

const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;

/// The part of a kind, if there is one. `headers` has the number of headers as its bytes.
fn part(read: &impl ReadAt, headers: Part, kind: u32) -> Option<Option<Part>> {
    const HEADER_BYTES: u64 = 56;
    for index in 0..headers.bytes.min(MOST_HEADERS) {
        let at = headers.offset.checked_add(index * HEADER_BYTES)?;
        let header: [u8; HEADER_BYTES as usize] = read_array(read, at)?;
        if word(&header, 0) == kind {
            return Some(Some(Part { offset: long(&header, 8), bytes: long(&header, 32) }));
        }
    }
    Some(None)
}

fn is_musl(read: &impl ReadAt, name: Part) -> Option<bool> {
    let mut text = [0; 64];
    let text = text.get_mut(..usize::try_from(name.bytes).ok()?.min(64))?;
    read(name.offset, text).then(|| text.windows(8).any(|part| part == b"/ld-musl"))
}

/// Whether a dynamic section is marked as a program's (DF_1_PIE), as linkers do for one that is
/// loaded anywhere and has no dynamic linker.
fn is_marked(read: &impl ReadAt, dynamic: Part) -> bool {
    const FLAGS: u64 = 0x6fff_fffb;
    const PROGRAM: u64 = 0x0800_0000;
    let entries = (dynamic.bytes / 16).min(MOST_ENTRIES);
    (0..entries).any(|index| {
        let at = dynamic.offset.checked_add(index * 16);
        let entry: Option<[u8; 16]> = at.and_then(|at| read_array(read, at));
        entry.is_some_and(|entry| long(&entry, 0) == FLAGS && long(&entry, 8) & PROGRAM != 0)
    })
}

fn read_array<const N: usize>(read: &impl ReadAt, offset: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    read(offset, &mut bytes).then_some(bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Option<Linking> {
        linking(&|offset: u64, into: &mut [u8]| {
            let from = bytes.get(offset as usize..offset as usize + into.len());
            from.map(|from| into.copy_from_slice(from)).is_some()
        })
    }

    /// A header, program headers of these kinds behind it, and the text that they all name.
    fn file(class: u8, kind: u8, machine: u16, headers: &[u32], text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        bytes[16] = kind;
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        (bytes[32], bytes[56]) = (64, headers.len() as u8);
        let text_at = 64 + 56 * headers.len() as u64;
        for header in headers {
            let mut entry = [0; 56];
            entry[..4].copy_from_slice(&header.to_le_bytes());
            entry[8..16].copy_from_slice(&text_at.to_le_bytes());
            entry[32..40].copy_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend(entry);
        }
        bytes.extend(text);
        bytes
    }

    #[test]
    fn programs_say_how_they_are_linked() {
        let (own, narrow) = MACHINES;
        let mut marked = [0; 32];
        marked[16..24].copy_from_slice(&0x6fff_fffb_u64.to_le_bytes());
        marked[24..].copy_from_slice(&0x0800_0000_u64.to_le_bytes());
        for (bytes, expected) in [
            (file(2, 2, own, &[1], b""), Some(Linking::Static)),
            (file(2, 3, own, &[1, 3], b"/lib64/ld-linux-x86-64.so.2\0"), Some(Linking::Dynamic)),
            (file(2, 3, own, &[1, 3], b"/lib/ld-musl-x86_64.so.1\0"), Some(Linking::Musl)),
            (file(2, 3, own, &[2], &marked), Some(Linking::Static)),
            // A dynamic linker, or a library.
            (file(2, 3, own, &[1, 2], &[0; 32]), None),
            (file(1, 2, narrow, &[], b""), Some(Linking::Narrow)),
            // Another machine's: an emulator may run it.
            (file(2, 2, 8, &[1], b""), None),
            (file(2, 2, own, &[1], b"")[..70].to_vec(), None),
            (b"\x7fELF".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(of(&bytes), expected);
        }
    }
}
