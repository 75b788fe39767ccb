//! Two processes with a role each: ping-pong.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use super::places::Places;
use crate::Side;
use crate::error::{Error, Result};
use crate::site::{Job, Site, play, run_bare, run_on_pool};
use crate::study::case::{Case, Model};
use crate::study::environment::Environment;

/// Seconds after which a program gives up.
const TIMEOUT: u32 = 60;
/// The first of the ports used in guests, where nothing else listens.
const FIRST_PORT: u32 = 20_000;
const PORTS: u32 = 20_000;

impl Places {
    pub(super) fn roles(
        &mut self,
        case: &Case,
        program: &str,
        arguments: &[String],
    ) -> Result<String> {
        let program = self.setup.kernels.find(program)?;
        let net = is_net(case);
        let native = case.environment == Environment::Native;
        if !native {
            let guests = if case.environment == Environment::Guests { 2 } else { 1 };
            self.guests(guests, Some(&program))?;
        }
        let common = self.common_arguments(case, arguments)?;
        let cpus = self.cpus();
        let job = |role: &str, cpu: Option<usize>| {
            let mut arguments = common.clone();
            arguments.extend(cpu.into_iter().flat_map(|cpu| ["--cpu".into(), cpu.to_string()]));
            arguments.push(role.to_owned());
            let on_pool = case.model == Model::Vshmem;
            Job { program: program.clone(), arguments, environment: Vec::new(), on_pool }
        };
        let roles = if net { ["client", "server"] } else { ["ping", "pong"] };
        match case.environment {
            Environment::Native => {
                let (first, second) = (job(roles[0], Some(cpus[0])), job(roles[1], Some(cpus[1])));
                if case.model == Model::Vshmem {
                    let here = self.processes()?;
                    play(&|side, job| here.run(side, job), &first, &second)
                } else {
                    play(&|_, job| run_bare(job), &first, &second)
                }
            }
            Environment::Guests => {
                let guests = self.guests(2, None)?;
                play(&|side, job| guests.run(side, job), &job(roles[0], None), &job(roles[1], None))
            }
            Environment::Guest => {
                let guests = self.guests(1, None)?;
                play(&|_, job| guests.run_in(1, job), &job(roles[0], None), &job(roles[1], None))
            }
            Environment::GuestHost => {
                let command = self.setup.command.clone();
                let guests = self.guests(1, None)?;
                let pool = guests.pool_name()?;
                let run = |side: Side, job: &Job| match side {
                    Side::First => run_on_pool(&[], job, &command, &pool, "on this machine"),
                    Side::Second => guests.run_in(1, job),
                };
                // The first guest has the first CPU for itself.
                play(&run, &job(roles[0], Some(cpus[1])), &job(roles[1], None))
            }
        }
    }

    /// Where the two roles meet, and when they give up.
    fn common_arguments(&mut self, case: &Case, arguments: &[String]) -> Result<Vec<String>> {
        let mut common = arguments.to_vec();
        common.extend(["--timeout".to_owned(), TIMEOUT.to_string()]);
        let native = case.environment == Environment::Native;
        if is_net(case) {
            let address = match case.environment {
                Environment::Guests => self.guests(2, None)?.address(),
                _ => Ipv4Addr::LOCALHOST,
            };
            let port =
                if native { free_port()? } else { (FIRST_PORT + self.fresh() % PORTS).to_string() };
            common.extend(["--host".into(), address.to_string(), "--port".into(), port]);
        } else if native {
            let path = self.meeting_place.path().display().to_string();
            common.extend(["--path".into(), path]);
        }
        Ok(common)
    }
}

fn is_net(case: &Case) -> bool {
    matches!(case.model, Model::Tcp | Model::Udp)
}

/// A free port of this machine.
fn free_port() -> Result<String> {
    let free = || -> std::io::Result<u16> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
        Ok(port)
    };
    free().map(|port| port.to_string()).map_err(Error::io("find a free port"))
}
