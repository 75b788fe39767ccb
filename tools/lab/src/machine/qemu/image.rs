//! The kernel inside a compressed kernel image. QEMU enters it directly (PVH), and no emulated
//! processor has to unpack it: with TCG that is most of the time that a kernel takes to start.

use std::process::Command;

use crate::host::tool;

/// The setup header of an x86 image (Linux: Documentation/arch/x86/boot.rst).
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const SECTOR: usize = 512;

/// How a payload begins, and what unpacks it. Its size is written behind it, which is not for the
/// unpacker.
const PACKERS: [(&[u8], &str, &[&str]); 3] = [
    (b"\xfd7zXZ\0", "xz", &["-dc", "--single-stream"]),
    (b"\x28\xb5\x2f\xfd", "zstd", &["-dc"]),
    (b"\x1f\x8b", "gzip", &["-dc"]),
];

/// The kernel in an image; `None` if it cannot be had, and the image has to do.
pub(crate) fn unpacked(image: &[u8]) -> Option<Vec<u8>> {
    let payload = payload(image)?;
    let (_, program, options) = PACKERS.iter().find(|(magic, ..)| payload.starts_with(magic))?;
    let program = tool::find(program)?;
    // A complaint about what follows the stream does not matter; what came out does.
    let kernel = tool::filter(Command::new(program).args(*options), payload).ok()?;
    (kernel.starts_with(b"\x7fELF") && kernel.len() > payload.len()).then_some(kernel)
}

fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| -> Option<usize> {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    if image.get(MAGIC..MAGIC + 4)? != b"HdrS" {
        return None;
    }
    let setup = match image[SETUP_SECTORS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = ((setup + 1) * SECTOR).checked_add(number(PAYLOAD_OFFSET)?)?;
    // The last four bytes are the size of what comes out.
    image.get(start..start.checked_add(number(PAYLOAD_LENGTH)?)?.checked_sub(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(packed: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * SECTOR + 16];
        image[SETUP_SECTORS] = 2;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16_u32.to_le_bytes());
        let length = packed.len() as u32 + 4;
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend(packed);
        image.extend([9; 4]);
        image
    }

    #[test]
    fn the_kernel_comes_out_of_its_image() {
        let kernel = [b"\x7fELF".as_slice(), &[7; 100_000]].concat();
        let packed = tool::filter(Command::new("gzip").arg("-c"), &kernel).unwrap();
        assert!(unpacked(&image(&packed)) == Some(kernel));
    }

    #[test]
    fn what_is_no_image_or_broken_is_left_alone() {
        assert_eq!(unpacked(b"short"), None);
        assert_eq!(unpacked(&image(b"not packed by anybody")), None);
        assert_eq!(unpacked(&image(b"\x1f\x8bbut not really")), None);
        let mut long = image(b"\x1f\x8b");
        long[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].fill(0xff);
        assert_eq!(unpacked(&long), None);
    }
}
