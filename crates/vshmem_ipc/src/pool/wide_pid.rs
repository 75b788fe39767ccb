//! Pids that mean the same in all domains of a pool.

/// Linux gives no pid from here on (PID_MAX_LIMIT of include/linux/threads.h).
const PIDS: u32 = 1 << 22;

/// A process of a domain, as one number: its pid, behind the domain's index plus one. A pid as the
/// kernel gives it is none, and a pool has so few domains that the number is a `pid_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WidePid {
    /// Index of the domain.
    pub domain: u32,
    /// Pid inside it.
    pub pid: u32,
}

impl WidePid {
    /// What a number names; `None` for a pid as the kernel gives it, and for what is no pid at all.
    #[must_use]
    pub fn of(number: i32) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        let domain = (number / PIDS).checked_sub(1)?;
        Some(Self { domain, pid: number % PIDS })
    }

    /// The number; of what a hostile member has written, any.
    #[must_use]
    pub fn number(self) -> u32 {
        self.domain.wrapping_add(1).wrapping_mul(PIDS) | (self.pid % PIDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_process_and_no_pid_of_the_kernels() {
        for (domain, pid) in [(0, 1), (0, PIDS - 1), (126, 1), (126, PIDS - 1)] {
            let wide = WidePid { domain, pid };
            let number = i32::try_from(wide.number()).unwrap();
            assert_eq!(WidePid::of(number), Some(wide));
        }
        for number in [i32::MIN, -1, 0, 1, PIDS as i32 - 1] {
            assert_eq!(WidePid::of(number), None, "{number}");
        }
    }
}
