//! Tables and figures for LaTeX: `booktabs`, and `longtable` where a page is not enough.

use crate::report::Rows;

/// Rows that a page has room for.
const PAGE: usize = 40;

/// A table, to be read by `\input`.
pub fn table(name: &str, caption: &str, rows: &Rows) -> String {
    let columns = format!("@{{}}l{}@{{}}", "l".repeat(rows.columns.len().saturating_sub(1)));
    let head = format!("\\toprule\n{} \\\\\n\\midrule\n", line(&rows.columns));
    let body: String = rows.rows.iter().map(|row| format!("{} \\\\\n", line(row))).collect();
    let caption = format!("\\caption{{{}}}\n\\label{{tab:{name}}}", escaped(caption));
    let needs = "% \\usepackage{booktabs}";
    if rows.rows.len() > PAGE {
        return format!(
            "{needs} \\usepackage{{longtable}}\n{{\\footnotesize\n\\begin{{longtable}}{{{columns}}}\n{caption}\\\\\n\
             {head}\\endhead\n{body}\\bottomrule\n\\end{{longtable}}}}\n"
        );
    }
    format!(
        "{needs}\n\\begin{{table}}\n\\centering\\footnotesize\n{caption}\n\\begin{{tabular}}{{{columns}}}\n\
         {head}{body}\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
    )
}

/// A figure, to be read by `\input` beside its PDF.
pub fn figure(name: &str, caption: &str) -> String {
    let caption = escaped(caption);
    format!(
        "% \\usepackage{{graphicx}}; {name}.pdf is made by `vshmem bench report --pdf`\n\\begin{{figure}}\n\\centering\n\
         \\includegraphics[width=\\linewidth]{{{name}.pdf}}\n\\caption{{{caption}}}\n\\label{{fig:{name}}}\n\\end{{figure}}\n"
    )
}

fn line(cells: &[String]) -> String {
    cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" & ")
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => safe.extend(['\\', letter]),
            '<' => safe.push_str("$<$"),
            '>' => safe.push_str("$>$"),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            '\\' => safe.push_str("\\textbackslash{}"),
            '\u{a0}' => safe.push('~'),
            '\u{b2}' => safe.push_str("$^2$"),
            other => safe.push(other),
        }
    }
    safe.replace(" .. ", "--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_latex_reads_otherwise_is_escaped() {
        let mut rows = Rows::new("t", ["what", "95 % interval"]);
        rows.rows.push(vec!["sem_post & co".into(), "1.0 .. 2.0".into()]);
        let text = table("x", "5 % of {all}", &rows);
        assert!(text.contains("sem\\_post \\& co & 1.0--2.0 \\\\"), "{text}");
        assert!(text.contains("\\caption{5 \\% of \\{all\\}}") && text.contains("\\toprule"));
        rows.rows = vec![vec![String::new(), String::new()]; 50];
        assert!(table("x", "", &rows).contains("\\begin{longtable}{@{}ll@{}}"));
    }
}
