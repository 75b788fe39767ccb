//! `vshmem lab ls`: the labs and their guests.

use clap::Args;
use vshmem_lab::{Lab, Listing};

use crate::failure::{Failure, failed};
use vshmem_cli::show;
use vshmem_cli::table::Table;

/// List the labs and their guests.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vshmem lab ls                  all labs
  vshmem lab --name lab ls       one";

impl Ls {
    /// Shows them, or the one of that name.
    pub fn carry_out(&self, name: Option<&str>) -> Result<(), Failure> {
        let mut labs = Lab::list_all()?;
        for error in Lab::not_understood() {
            match (&error, name) {
                (_, None) => eprintln!("vshmem: {error}"),
                (vshmem_lab::Error::OtherRelease { name: its, .. }, Some(name)) if its == name => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        if let Some(name) = name {
            labs.retain(|lab| lab.name == name);
            if labs.is_empty() {
                return no_such_lab(name);
            }
        }
        if self.json {
            return Ok(show::json(&labs)?);
        }
        let mut table = Table::new(
            "",
            &["LAB", "MADE-OF", "POOL", "GUEST", "DOMAIN", "STATE", "ADDRESS", "UID", "WHY"],
        );
        for lab in &labs {
            add(&mut table, lab);
        }
        Ok(show::text(&table.to_string())?)
    }
}

fn add(table: &mut Table, lab: &Listing) {
    let first = [lab.name.clone(), lab.made_of.clone(), lab.pool_name.clone().unwrap_or_default()];
    if lab.guests.is_empty() {
        let (state, why) = match &lab.remedy {
            Some(remedy) => ("does not answer", remedy.clone()),
            None => ("keeper died", format!("`vshmem lab --name {} down` clears up", lab.name)),
        };
        let rest = [String::new(), String::new(), state.into(), String::new(), String::new(), why];
        table.row([&first[..], &rest[..]].concat());
    }
    for guest in &lab.guests {
        let rest = [
            guest.guest.to_string(),
            guest.domain.clone(),
            guest.state.to_string(),
            guest.address.to_string(),
            guest.uid.to_string(),
            guest.how.clone(),
        ];
        table.row([&first[..], &rest[..]].concat());
    }
}

/// Says that there is none of that name.
pub fn no_such_lab<T>(name: &str) -> Result<T, Failure> {
    failed(format!("lab {name}: there is none of that name. `vshmem lab ls` shows those there are"))
}
