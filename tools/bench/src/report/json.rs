//! Results for programs: one JSON object a line.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};

/// Writes lines to a file, each with its `kind`: `machine`, `sample`, `summary`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_lines(path: &Path, lines: &[(&str, Value)]) -> Result<()> {
    let failed = || Error::io(format!("write {}", path.display()));
    let mut file = BufWriter::new(File::create(path).map_err(failed())?);
    for (kind, value) in lines {
        let line =
            serde_json::to_string(&Line { kind, value }).map_err(|error| failed()(error.into()))?;
        writeln!(file, "{line}").map_err(failed())?;
    }
    file.flush().map_err(failed())
}

#[derive(Serialize)]
struct Line<'a> {
    kind: &'a str,
    #[serde(flatten)]
    value: &'a Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = [
            ("machine", serde_json::json!({"cpus": 2})),
            ("sample", serde_json::json!({"pair": 1})),
        ];
        write_lines(file.path(), &lines).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, "{\"kind\":\"machine\",\"cpus\":2}\n{\"kind\":\"sample\",\"pair\":1}\n");
    }
}
