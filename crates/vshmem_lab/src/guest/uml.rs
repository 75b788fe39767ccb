//! User Mode Linux: a Linux kernel as a host process, on the host's own files (hostfs, read-only).

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::{Machine, Plan};
use crate::check::Missing;
use crate::init::BOOT_VARIABLE;
use crate::record::Record;
use crate::{INIT_VERB, tool};

pub(crate) struct Uml;

fn kernel() -> Option<std::path::PathBuf> {
    ["linux.uml", "linux"].iter().find_map(|name| tool::find(name))
}

impl Machine for Uml {
    fn missing(&self) -> Vec<Missing> {
        if kernel().is_some() {
            return Vec::new();
        }
        vec![Missing::new(
            "a User Mode Linux kernel (`linux.uml` or `linux`)",
            "not in PATH",
            "apt-get install user-mode-linux",
        )]
    }

    fn made_of(&self, _record: &Record) -> String {
        "User Mode Linux, mmapper".into()
    }

    fn interface(&self) -> &'static str {
        "vec0"
    }

    fn boot_time(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn words(&self, plan: &Plan<'_>, _line: Option<i32>) -> Vec<OsString> {
        let option = |name: &str, value: &Path| {
            let mut word = OsString::from(name);
            word.push("=");
            word.push(value);
            word
        };
        let private = plan.directory.private_of(plan.guest);
        let mut words: Vec<OsString> =
            vec![kernel().map_or_else(|| "linux.uml".into(), OsString::from)];
        words.push(format!("mem={}M", plan.record.memory_mib).into());
        words.extend(
            ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"]
                .map(OsString::from),
        );
        words.push(option("init", &plan.directory.stage().join(&plan.record.init)));
        if let Some(pool) = &plan.record.pool {
            words.push(
                option("iomem=mmapper,", pool).to_string_lossy().replacen(",=", ",", 1).into(),
            );
        }
        words.extend(["con0=fd:0,fd:1", "con=null", "ssl=null"].map(OsString::from));
        words.push(option("uml_dir", &private));
        words.push(format!("umid=guest{}", plan.guest).into());
        words.push(
            format!(
                "vec0:transport=tap,ifname={},depth=64,gro=1,mac=02:76:73:68:6d:{:02x}",
                plan.tap(),
                plan.guest
            )
            .into(),
        );
        // Words that the kernel does not know become PID 1's environment (with `=`) and its arguments.
        words.push(option(BOOT_VARIABLE, &plan.directory.boot(plan.guest)));
        words.push(INIT_VERB.into());
        words
    }
}
