//! A small command over the lab, for trying and testing it: `up`, `exec`, `ls`, `kill`, `restart`,
//! `console`, `down`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use vshmem_lab::{
    Device, Error, ExecRequest, GuestKind, INIT_VERB, KEEPER_VERB, Lab, Streams, UpOptions,
};

const USAGE: &str = "usage: lab [--name NAME] up [--guest qemu] [--device dax] [--driver FILE] [-n COUNT] [--memory MIB] [--pool FILE] [--on-death COMMAND-LINE] | exec GUEST -- COMMAND... \
                     | ls | kill GUEST | pause GUEST | resume GUEST | restart GUEST | console GUEST | down";

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let result = match words.first().and_then(|word| word.to_str()) {
        Some(KEEPER_VERB) => vshmem_lab::keeper(&words[1..]).map(|()| 0),
        Some(INIT_VERB) => vshmem_lab::guest_init().map(|()| 0),
        _ => run(words),
    };
    match result {
        Ok(code) => ExitCode::from(code as u8),
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ! {
    eprintln!("{USAGE}");
    std::process::exit(2)
}

fn options(name: String, mut word: impl FnMut() -> Option<String>) -> UpOptions {
    let mut options = UpOptions { name, ..Default::default() };
    while let Some(option) = word() {
        let value = word().unwrap_or_else(|| usage());
        match option.as_str() {
            "-n" => options.count = value.parse().unwrap_or_else(|_| usage()),
            "--guest" if value == "qemu" => options.guest = GuestKind::Qemu,
            "--driver" => options.driver = Some(value.into()),
            "--device" if value == "dax" => options.device = Device::Dax,
            "--memory" => options.memory_mib = value.parse().unwrap_or_else(|_| usage()),
            "--pool" => {
                options.pool_name = PathBuf::from(&value)
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned());
                options.pool = Some(value.into());
            }
            "--on-death" => {
                options.on_death = Some(value.split_whitespace().map(str::to_owned).collect())
            }
            _ => usage(),
        }
    }
    options
}

fn run(words: Vec<OsString>) -> Result<i32, Error> {
    let mut words = words.into_iter();
    let mut text = move || words.next();
    let mut word = || text().map(|word| word.to_string_lossy().into_owned());
    let mut name = "default".to_owned();
    let verb = loop {
        match word().unwrap_or_else(|| usage()).as_str() {
            "--name" => name = word().unwrap_or_else(|| usage()),
            verb => break verb.to_owned(),
        }
    };
    if verb == "up" {
        return Lab::up(&options(name, word)).map(|_| 0);
    }
    if verb == "down" {
        return Lab::down_named(&name).map(|_| 0);
    }
    if verb == "ls" {
        for lab in Lab::list_all()? {
            println!("lab {} ({}): keeper {:?}", lab.name, lab.guest, lab.keeper);
            for guest in lab.guests {
                println!(
                    "  {} {} {} uid {} {}",
                    guest.domain, guest.address, guest.state, guest.uid, guest.how
                );
            }
        }
        return Ok(0);
    }
    let guest = word().unwrap_or_else(|| usage());
    if verb == "exec" {
        let mut argv: Vec<OsString> = std::iter::from_fn(&mut word).map(Into::into).collect();
        if argv.first().is_some_and(|first| first == "--") {
            argv.remove(0);
        }
        let request = ExecRequest { argv, forward_signals: true, ..Default::default() };
        if vshmem_lab::in_guest() {
            let guest = guest.trim_start_matches("guest").parse().unwrap_or_else(|_| usage());
            return vshmem_lab::exec_in_peer(guest, &request, Streams::inherit()?);
        }
        let lab = Lab::open(&name)?;
        return lab.exec(lab.guest_named(&guest)?, &request);
    }
    let lab = Lab::open(&name)?;
    let guest = lab.guest_named(&guest)?;
    match verb.as_str() {
        "kill" => lab.kill(guest)?,
        "pause" => lab.pause(guest)?,
        "resume" => lab.resume(guest)?,
        "restart" => lab.restart(guest)?,
        "console" => println!("{}", lab.console(guest)?),
        _ => usage(),
    }
    Ok(0)
}
