//! The report of a journal that was kept: a page that needs nothing else, with every figure;
//! tables; what a browser makes of it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use vshmem_bench::study::{Contents, JOURNAL, report};

/// A quick study of a busy machine, `tests/fixtures/quick.jsonl`: all environments, with a program
/// that failed.
fn kept() -> (tempfile::TempDir, Contents) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/quick.jsonl");
    let directory = tempfile::tempdir().unwrap();
    fs::copy(fixture, directory.path().join(JOURNAL)).unwrap();
    let contents = Contents::read(directory.path()).unwrap();
    (directory, contents)
}

fn page() -> (tempfile::TempDir, PathBuf, String) {
    let (directory, contents) = kept();
    let page = report::write(directory.path(), &contents).unwrap();
    let text = fs::read_to_string(&page).unwrap();
    (directory, page, text)
}

#[test]
fn the_page_needs_nothing_else() {
    let (_directory, _, text) = page();
    // The name of the SVG language is no address that is asked.
    let text = text.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "<script", "<link", "@import", "url(", "src="] {
        assert!(!text.contains(outside), "{outside}");
    }
}

#[test]
fn the_page_is_well_formed() {
    let (_directory, _, text) = page();
    let mut open: Vec<String> = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').expect("a tag ends");
        rest = after;
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default();
        match tag {
            _ if tag.starts_with('!') || ["meta", "br"].contains(&name) => (),
            _ if tag.starts_with('/') => assert_eq!(open.pop().as_deref(), Some(name)),
            _ if tag.ends_with('/') => (),
            _ => open.push(name.to_owned()),
        }
        if name == "style" && !tag.starts_with('/') {
            rest = &rest[rest.find("</style").expect("the style ends")..];
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn every_figure_and_section_is_there() {
    let (directory, _, text) = page();
    for name in [
        "latency-guests",
        "latency-one-kernel",
        "latency-placements",
        "dwarf-laplace",
        "dwarf-pi",
        "dwarf-blas3-d",
        "overhead-micro",
        "overhead-dwarfs",
        "overhead-algebra",
        "overhead-system",
        "mflops",
        "noise",
    ] {
        assert!(text.contains(&format!("id=\"figure-{name}\"")), "{name}");
        let svg = fs::read_to_string(directory.path().join(format!("figures/{name}.svg"))).unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{name}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    }
    for section in ["findings", "conclusions", "figures", "tables", "missing", "method"] {
        assert!(text.contains(&format!("<section id=\"{section}\"")), "{section}");
    }
    assert!(text.contains("sync: vshmem, guests vs System V, one OS kernel"));
    assert!(text.contains("97 % interval"));
    // Captions say on what it was measured, and can be pasted.
    assert!(text.contains("<figcaption>Round trip between two guests. ") && text.contains("seed "));
}

#[test]
fn tables_have_a_line_for_each_case_and_each_run() {
    let (directory, contents) = kept();
    report::write(directory.path(), &contents).unwrap();
    let lines = |name: &str| {
        let text = fs::read_to_string(directory.path().join(name)).unwrap();
        let columns = text.lines().next().unwrap().split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == columns), "{name}");
        text.lines().count() - 1
    };
    let missing = report::missing(&contents);
    let is_missing =
        |case: &str| missing.iter().any(|(_, cases)| cases.iter().any(|one| one == case));
    let samples = contents.samples.iter().filter(|sample| !is_missing(&sample.case));
    assert_eq!(lines("samples.csv"), samples.count());
    let measured = contents.study.cases.iter().filter(|case| !is_missing(&case.name)).count();
    assert_eq!(lines("summary.csv"), measured);
}

#[test]
fn what_was_not_measured_is_named_with_its_reason() {
    let (_directory, contents) = kept();
    let missing = report::missing(&contents);
    let named = |words: &str| missing.iter().any(|(why, _)| why.contains(words));
    assert!(named("apt-get install"), "{missing:?}");
    // Pages of a pool are there before they are touched: that takes no page fault.
    let none = missing.iter().find(|(why, _)| why.contains("no page faults happened"));
    assert!(none.unwrap().1.iter().all(|case| case.starts_with("faults-segment")), "{missing:?}");
    assert_eq!(missing.len(), 2, "{missing:?}");
}

#[test]
fn there_is_one_direction_and_vshmem_is_named_first() {
    let (_directory, contents) = kept();
    let rows = report::conclusions(&contents);
    assert!(rows.rows.iter().all(|row| !row[0].starts_with("tcp, guests vs sync")));
    let tcp = rows.rows.iter().filter(|row| row[0].ends_with(" vs TCP, guests"));
    assert!(tcp.clone().count() > 1 && tcp.clone().all(|row| row[6] != "slower"), "{rows:?}");
    let findings = report::findings(&contents);
    let tcp = findings.iter().find(|(what, _)| what.contains("vs TCP")).unwrap();
    assert!(tcp.1.contains("times faster"), "{findings:?}");
}

#[test]
fn tables_and_figures_are_there_for_papers() {
    let (directory, contents) = kept();
    report::write(directory.path(), &contents).unwrap();
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    for name in ["findings", "conclusions", "micro", "dwarfs", "algebra", "system"] {
        let text = read(&format!("tables/{name}.tex"));
        assert!(text.contains("\\toprule") && text.contains("\\bottomrule"), "{name}");
        assert!(text.contains("\\caption{") && text.contains("Measured on"), "{name}");
    }
    let figure = read("figures/latency-guests.tex");
    assert!(figure.contains("\\includegraphics[width=\\linewidth]{latency-guests.pdf}"));
}

#[test]
fn a_study_is_like_itself() {
    let (_directory, contents) = kept();
    let (rows, agreement) = report::compared(&contents, &contents);
    assert!(agreement.starts_with("0 of ") && agreement.contains("0 slower"), "{agreement}");
    assert!(!rows.rows.is_empty());
    // Of nothing there is no ratio.
    for row in rows.rows.iter().filter(|row| !row[3].is_empty()) {
        assert_eq!((row[3].as_str(), row[7].as_str()), ("1.00x", "no difference shown"), "{row:?}");
    }
    assert_eq!(report::machines_apart(&contents, &contents), Vec::<String>::new());
    let (rows, sentence) = report::conclusions_apart(&contents, &contents);
    assert_eq!(rows.rows, Vec::<Vec<String>>::new());
    assert!(sentence.contains("same in A and B; 0 are opposite; 0 are shown"), "{sentence}");
}

/// As if the first figure of these cases had come out so many times as large.
fn scale(contents: &mut Contents, factor: f64, is_meant: fn(&str) -> bool) {
    for sample in contents.samples.iter_mut().filter(|sample| is_meant(&sample.case)) {
        let case = contents.study.cases.iter().find(|case| case.name == sample.case).unwrap();
        let figure = &mut sample.output[&case.figures[0].member];
        *figure = (figure.as_f64().unwrap() * factor).into();
    }
}

#[test]
fn conclusions_that_two_studies_do_not_share_are_named() {
    let (_directory, contents) = kept();
    let mut other = contents.clone();
    scale(&mut other, 10000.0, |case| case.starts_with("sync-") && case.ends_with("guests.vshmem"));
    let (rows, sentence) = report::conclusions_apart(&contents, &other);
    let tcp = rows.rows.iter().find(|row| row[0].ends_with(" vs TCP, guests")).unwrap();
    assert_eq!((tcp[4].as_str(), tcp[7].as_str()), ("faster", "slower"), "{rows:?}");
    assert!(!sentence.contains("; 0 are opposite"), "{sentence}");
    // A machine on which all takes a little longer draws the same conclusions.
    let mut slower = contents.clone();
    scale(&mut slower, 1.1, |_| true);
    assert_eq!(report::conclusions_apart(&contents, &slower).0.rows, Vec::<Vec<String>>::new());
}

#[test]
fn emulated_places_are_marked_and_not_concluded_from() {
    let (directory, mut contents) = kept();
    for sample in contents.samples.iter_mut().filter(|sample| sample.case.contains(".guest")) {
        sample.emulated = Some("QEMU without KVM".into());
    }
    let rows = report::conclusions(&contents);
    for row in rows.rows.iter().filter(|row| row[0].contains("guest")) {
        assert_eq!(row[6], "emulated: no conclusion", "{row:?}");
    }
    let concluded = rows.rows.iter().filter(|row| row[6] != "emulated: no conclusion");
    assert!(concluded.count() > 5, "one kernel is not emulated");
    let page = fs::read_to_string(report::write(directory.path(), &contents).unwrap()).unwrap();
    assert!(page.contains("(emulated)") && page.contains("QEMU without KVM"));
}

#[test]
fn headlines_are_one_for_each_question_about_a_benchmark() {
    let (_directory, contents) = kept();
    let (headlines, more) = report::headlines(&contents);
    let all = report::conclusions(&contents).rows.len();
    assert!(headlines.rows.len() < 30 && more > 0 && more < all, "{headlines:?}");
    let named = |question: &str, what: &str| {
        headlines.rows.iter().filter(|row| row[0] == question && row[1].starts_with(what)).count()
    };
    assert_eq!(named("place", "sync: vshmem, guests vs System V, one OS kernel"), 1);
    assert_eq!(named("place", "laplace: vshmem, guests vs System V, one OS kernel"), 1);
    assert_eq!(named("talk", "sync: vshmem, guests vs TCP, guests"), 1, "{headlines:?}");
    let questions: Vec<&str> = headlines.rows.iter().map(|row| row[0].as_str()).collect();
    assert!(
        questions.chunk_by(|one, other| one == other).count() <= 5,
        "not sorted: {questions:?}"
    );
    let mut names: Vec<(&str, &str)> = Vec::new();
    for row in &headlines.rows {
        let bench = row[1].split([':', ',']).next().unwrap_or_default();
        let is_network = row[1].ends_with("TCP, guests") || row[1].ends_with("UDP, guests");
        assert!(is_network || !names.contains(&(&row[0], bench)), "twice: {row:?}");
        names.push((&row[0], bench));
    }
}

/// A picture as a browser makes it: not blank, and nothing wider than the window. Skipped where
/// there is no Chromium.
#[test]
fn a_browser_shows_it_on_desks_phones_and_paper() {
    let Some(chromium) =
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
            Command::new(name).arg("--version").output().is_ok_and(|said| said.status.success())
        })
    else {
        // Not by a macro: that is not shown in the log of a test that passed.
        let line =
            "SKIPPED: the report in a browser: there is no chromium (apt-get install chromium)\n";
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    };
    let (directory, path, _) = page();
    let browse = |words: &[String]| {
        let said = Command::new(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args([
                "--allow-file-access-from-files",
                "--no-pdf-header-footer",
                "--disable-dev-shm-usage",
            ])
            .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
            .args(words)
            .output()
            .unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    for (name, width) in [("desk", 1400), ("phone", 390)] {
        // A window of a browser is not as narrow as a phone; a frame in it is.
        let frame = directory.path().join(format!("{name}.html"));
        let script = "f.onload=()=>{const d=f.contentDocument.documentElement;\
                      document.title=d.scrollWidth+' '+d.scrollHeight;}";
        let html = format!(
            "<title></title><body style=margin:0><iframe id=f src=report.html style='border:0;width:{width}px;\
             height:3000px'></iframe><script>{script}</script>"
        );
        fs::write(&frame, html).unwrap();
        let picture = directory.path().join(format!("{name}.png"));
        let address = format!("file://{}", frame.display());
        browse(&[
            format!("--window-size={},3000", width.max(500)),
            format!("--screenshot={}", picture.display()),
            address.clone(),
        ]);
        assert!(fs::metadata(&picture).unwrap().len() > 50_000, "{name}: an empty picture");
        let dom = browse(&["--virtual-time-budget=5000".into(), "--dump-dom".into(), address]);
        let title = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
        let size = title.map(|(size, _)| size).unwrap_or_default();
        let across: u32 = size.split(' ').next().and_then(|one| one.parse().ok()).unwrap_or(0);
        assert!((1..=width).contains(&across), "{name}: {size:?} in a window {width} wide");
        keep(&picture);
    }
    let paper = directory.path().join("report.pdf");
    browse(&[format!("--print-to-pdf={}", paper.display()), format!("file://{}", path.display())]);
    assert!(fs::read(&paper).unwrap().starts_with(b"%PDF"), "no paper");
    keep(&paper);
}

/// To be looked at: in the directory that `VSHMEM_SCREENSHOTS` names.
fn keep(file: &Path) {
    if let Some(place) = std::env::var_os("VSHMEM_SCREENSHOTS") {
        let place = Path::new(&place);
        fs::create_dir_all(place).unwrap();
        fs::copy(file, place.join(file.file_name().unwrap())).unwrap();
    }
}
