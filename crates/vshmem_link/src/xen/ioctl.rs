//! Operations of Xen's devices. Their numbers say neither direction nor, for some, the true size.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{Direction, Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// An operation with a pointer, whose result is a number.
struct Pass {
    opcode: Opcode,
    argument: *mut c_void,
}

// SAFETY: the opcode and the argument are passed on as they are; that they fit is what the caller
// of `pass` vouches for.
unsafe impl Ioctl for Pass {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument
    }

    unsafe fn output_from_ptr(
        out: IoctlOutput,
        _argument: *mut c_void,
    ) -> rustix::io::Result<IoctlOutput> {
        Ok(out)
    }
}

/// `_IOC(_IOC_NONE, group, number, bytes)` with a pointer to its structure.
///
/// # Errors
/// What the device says.
///
/// # Safety
/// `argument` points to what the operation of that number reads and writes.
pub unsafe fn pass(
    device: BorrowedFd<'_>,
    group: u8,
    number: u8,
    bytes: usize,
    argument: *mut c_void,
) -> Result<i32, Errno> {
    let opcode = opcode::from_components(Direction::None, group, number, bytes);
    // SAFETY: by this function's own contract.
    unsafe { ioctl(device, Pass { opcode, argument }) }
}
