//! Figures as PDF, by a program of this machine that can make them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};

/// A program that turns a file of SVG into one of PDF.
struct Tool {
    name: &'static str,
    arguments: fn(svg: String, pdf: String) -> Vec<String>,
}

const TOOLS: [Tool; 3] = [
    Tool {
        name: "rsvg-convert",
        arguments: |svg, pdf| vec!["--format=pdf".into(), "--output".into(), pdf, svg],
    },
    Tool { name: "inkscape", arguments: |svg, pdf| vec![format!("--export-filename={pdf}"), svg] },
    Tool { name: "cairosvg", arguments: |svg, pdf| vec![svg, "--output".into(), pdf] },
];

/// Writes `figures/*.pdf` beside the SVG that is there; how many.
///
/// # Errors
/// When no program can, with what to do; or the one that there is fails.
pub fn figures(directory: &Path) -> Result<usize> {
    let folder = directory.join("figures");
    let tool = TOOLS.iter().find(|tool| is_there(tool.name)).ok_or_else(|| Error::Absent {
        what: "a program that makes PDF of SVG".into(),
        remedy: format!(
            "install one (`apt-get install librsvg2-bin`) and run this again; or print {}/report.html from a browser",
            directory.display()
        ),
    })?;
    let failed = || Error::io(format!("read {}", folder.display()));
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).map_err(failed())? {
        let svg = entry.map_err(failed())?.path();
        if svg.extension().is_some_and(|ending| ending == "svg") {
            convert(tool, &svg)?;
            count += 1;
        }
    }
    Ok(count)
}

fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(name).is_file())
}

fn convert(tool: &Tool, svg: &Path) -> Result<()> {
    let pdf = svg.with_extension("pdf");
    let words = (tool.arguments)(svg.display().to_string(), pdf.display().to_string());
    let said = Command::new(tool.name)
        .args(&words)
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io(format!("run {}", tool.name)))?;
    if said.status.success() {
        return Ok(());
    }
    Err(Error::Program {
        command: format!("{} {}", tool.name, words.join(" ")),
        place: "on this machine".into(),
        status: said.status.to_string(),
        output: String::from_utf8_lossy(&said.stderr).trim().to_owned(),
    })
}
