//! `vshmem lab exec`: a command in a guest.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use vshmem_lab::{ExecRequest, Lab, Streams};

use crate::failure::{Failure, Outcome};

/// Run a command in a guest; its exit code is passed on.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Exec {
    /// Pass the words to a shell as one line, as ssh does; mpirun's plm_rsh_agent needs that.
    #[arg(long)]
    shell: bool,
    /// The guest: its number or name.
    guest: String,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
It begins in the guest's /root, which is empty: name programs by their whole path. Guests see the
host's files for reading, except below /tmp, /var/tmp, /root and /run, which are each guest's own.

Examples:
  vshmem lab exec 1 -- uname -r
  vshmem lab exec guest2 -- vshmem run $PWD/consumer";

impl Exec {
    /// A shell that is given the words as one line.
    fn line(&self) -> Vec<OsString> {
        let line = self.command.join(std::ffi::OsStr::new(" "));
        vec!["sh".into(), "-c".into(), line]
    }

    /// Runs it.
    pub fn carry_out(&self, name: &str) -> Outcome {
        let request = ExecRequest {
            argv: if self.shell { self.line() } else { self.command.clone() },
            forward_signals: true,
            ..ExecRequest::default()
        };
        let code = if vshmem_lab::in_guest() {
            let number = self.guest.strip_prefix("guest").unwrap_or(&self.guest);
            let Ok(number) = number.parse() else {
                return Err(Failure::usage(format!(
                    "{:?} is not a guest: give its number, as in `vshmem lab exec 2 -- CMD`",
                    self.guest
                )));
            };
            vshmem_lab::exec_in_peer(number, &request, Streams::inherit()?)?
        } else {
            let lab = Lab::open(name)?;
            lab.exec(lab.guest_named(&self.guest)?, &request)?
        };
        Ok(ExitCode::from(code as u8))
    }
}
