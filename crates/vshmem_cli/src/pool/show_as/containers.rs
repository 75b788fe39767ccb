//! What a container engine needs: the pool's file, at the same path as on the host. The options
//! are alike in docker-run(1) and podman-run(1).

use std::process::ExitCode;

use vshmem_session::Role;

use super::form::{Device, Form};
use super::host_pool::HostPool;
use super::{cdi, kubernetes};
use crate::failure::{Failure, Outcome, failed};
use crate::{program, show};

/// Shows it.
pub fn show(name: &str, form: Form, device: Option<Device>) -> Outcome {
    if device.is_some() {
        return Err(Failure::Usage(format!(
            "--device: a container uses the pool's file, not a device. Leave it out with --as {}",
            form.name()
        )));
    }
    let pool = HostPool::of(name)?;
    // What it says is pasted into shells and templates, where other characters mean something.
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%=~".contains(c);
    if !pool.path.to_string_lossy().chars().all(is_plain) {
        return failed(format!(
            "{}: a path with other characters than letters, digits and /._-+@%=~ cannot be written down for a container engine. Move the pool's file",
            show::sanitized(&pool.path.to_string_lossy())
        ));
    }
    for hint in hints(&pool, form) {
        eprintln!("vshmem: {hint}");
    }
    show::text(&match form {
        Form::Cdi => cdi::file(&pool, &program::own_binary()?)?,
        Form::Kubernetes => kubernetes::template(&pool),
        _ => options(&pool),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The options of `docker run` and `podman run`, on one line.
fn options(pool: &HostPool) -> String {
    let path = pool.path.display();
    format!("--mount type=bind,src={path},dst={path} --env VSHMEM_POOL={}\n", pool.reference())
}

fn hints(pool: &HostPool, form: Form) -> Vec<String> {
    let mut hints = Vec::new();
    let (name, path) = (&pool.name, pool.path.display());
    // A hook in the CDI file starts it.
    if form != Form::Cdi && !Role::PermanentAgent.is_held(&pool.path) {
        hints.push(format!(
            "pool {name}: start `vshmem agent --keep --pool {path}` on the host as root, so that what a container holds is given back when it ends"
        ));
    }
    if pool.mode & 0o066 == 0 {
        hints.push(format!(
            "pool {name}: only its owner may open it (mode {:04o}). For containers of other users create it with --mode 0660 --group GROUP, or --mode 0666",
            pool.mode & 0o777
        ));
    }
    if form == Form::Cdi {
        hints.push(format!(
            "pool {name}: write this to /etc/cdi/vshmem-{name}.json; then `podman run --device {}={name} ...`, or the same with docker",
            cdi::KIND
        ));
    }
    hints
}
