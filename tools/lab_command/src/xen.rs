//! The pool of Xen's domains: dom0 makes and serves it.

use vshmem_lab::{ExecRequest, Lab, Streams};

use crate::failure::{Failure, failed};
use crate::own_pool::POOL_BYTES;
use vshmem_cli::size;

/// Xen's control domain, as a guest.
pub const DOM0: u32 = 0;

/// Makes the pool of Xen's domains and has dom0 serve it: those that boot later become members,
/// those that end are reaped.
pub fn make_in_dom0(lab: &Lab, pool: &str) -> Result<(), Failure> {
    let size = size::show(POOL_BYTES);
    let serve = "exec setsid vshmem pool serve \"$1\" </dev/null >/run/vshmem/serve.log 2>&1 &";
    let commands: [&[&str]; 2] = [
        &["vshmem", "pool", "create", pool, "--xen", "--size", &size],
        &["sh", "-c", serve, "sh", pool],
    ];
    for words in commands {
        let request = ExecRequest::new(words.iter().copied());
        let quiet =
            Streams { stdin: None, stdout: Box::new(std::io::sink()), ..Streams::inherit()? };
        let code = lab.exec_with(DOM0, &request, quiet)?;
        if code != 0 {
            return failed(format!(
                "lab {}: `{}` in dom0 ended with exit code {code}. It says why above",
                lab.name(),
                words.join(" ")
            ));
        }
    }
    Ok(())
}
