//! The drawing of a plan: well-formed, a mark for each core, and no box over another.

use std::path::Path;

use roxmltree::{Document, Node as Element};
use vshmem_plan::machine::Source;
use vshmem_plan::{Cut, PoolPlacement, PoolRequest, Request, Smt, form, plan};

/// Left, top, right, bottom.
type Area = [i64; 4];

/// The boxes below an element, each with those that it lies in.
fn boxes(element: Element, at: (i64, i64), found: &mut Vec<Area>) {
    let number = |name| element.attribute(name).and_then(|text| text.parse::<i64>().ok());
    let moved = element.attribute("transform").map(|text| {
        let text = text.trim_start_matches("translate(").trim_end_matches(')');
        let (x, y) = text.split_once(' ').unwrap();
        (at.0 + x.parse::<i64>().unwrap(), at.1 + y.parse::<i64>().unwrap())
    });
    let at = moved.unwrap_or(at);
    let size = number("width").zip(number("height"));
    if let (true, Some((width, height))) = (element.has_tag_name("rect"), size) {
        let (x, y) = (at.0 + number("x").unwrap_or(0), at.1 + number("y").unwrap_or(0));
        found.push([x, y, x + width, y + height]);
    }
    element.children().for_each(|child| boxes(child, at, found));
}

fn contains(outer: Area, inner: Area) -> bool {
    outer[0] <= inner[0] && outer[1] <= inner[1] && outer[2] >= inner[2] && outer[3] >= inner[3]
}

/// Two pixels at an edge are no overlap: lines of a bar have them.
fn overlap(one: Area, other: Area) -> bool {
    one[0] + 2 < other[2] && other[0] + 2 < one[2] && one[1] + 2 < other[3] && other[1] + 2 < one[3]
}

#[test]
fn every_machine_is_drawn_and_nothing_lies_over_something_else() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let placement = PoolPlacement::ByRule;
    let pool = Some(PoolRequest { bytes: 64 << 20, placement });
    let mut drawn = 0;
    for file in std::fs::read_dir(directory).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "xml") {
            continue;
        }
        let machine = Source::Xml(file.clone()).read().unwrap();
        for (cut, smt) in
            [(Cut::PerSocket, Smt::Keep), (Cut::PerNode, Smt::Off), (Cut::Count(1), Smt::Keep)]
        {
            let planned =
                plan(&machine, &Request { cut, smt, pool, ..Request::default() }).unwrap();
            let text = form::svg(&machine, &planned);
            let document = Document::parse(&text).unwrap();
            let marks = document.descendants().filter(|one| one.attribute("class") == Some("mark"));
            assert_eq!(marks.count(), machine.cores.len(), "{}", file.display());
            let mut areas = Vec::new();
            boxes(document.root_element(), (0, 0), &mut areas);
            for (number, one) in areas.iter().enumerate() {
                assert!(contains(areas[0], *one), "{}: {one:?} leaves the page", file.display());
                for other in &areas[number + 1..] {
                    let is_apart = !overlap(*one, *other);
                    let is_in = contains(*one, *other) || contains(*other, *one);
                    assert!(is_apart || is_in, "{}: {one:?} {other:?}", file.display());
                }
            }
            drawn += 1;
        }
    }
    assert!(drawn >= 3 * 21);
}
