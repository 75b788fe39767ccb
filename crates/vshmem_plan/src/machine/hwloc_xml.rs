//! Reads hwloc's XML, as `lstopo --of xml` writes it (version 2; hwloc's manual, "XML").

use roxmltree::{Document, Node as Element};

use super::{Core, Machine, Node};
use crate::number_set::NumberSet;

/// Where the walk is.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    package: u32,
    die: Option<u32>,
    l3: Option<u32>,
}

/// What the walk has found.
#[derive(Debug, Default)]
struct Found {
    packages: u32,
    dies: u32,
    l3s: u32,
    nodes: Vec<Node>,
    /// Each core's CPUs and position.
    cores: Vec<(Vec<u32>, Position)>,
}

/// Makes a machine of the text of an XML file. The error is a sentence without its stop.
pub(super) fn read(text: &str) -> Result<Machine, String> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = Document::parse_with_options(text, options).map_err(|e| e.to_string())?;
    let root = document.root_element();
    if !root.attribute("version").is_some_and(|version| version.starts_with('2')) {
        return Err("it is not XML of hwloc 2".into());
    }
    let top = root
        .children()
        .find(|child| child.has_tag_name("object"))
        .ok_or("there is no object in it")?;
    let allowed = set(top, "allowed_cpuset").or_else(|| set(top, "cpuset"));
    let allowed = allowed.ok_or("its machine has no cpuset")?;
    let mut found = Found::default();
    walk(top, Position::default(), &mut found)?;
    let kinds = kinds(root);
    let distances = distances(root)?;
    machine(found, &allowed, &kinds, distances, top)
}

/// The objects below this one.
fn walk(object: Element, mut position: Position, found: &mut Found) -> Result<(), String> {
    match object.attribute("type").unwrap_or_default() {
        "Package" => {
            position = Position { package: found.packages, ..Position::default() };
            found.packages += 1;
        }
        "Die" => {
            position.die = Some(found.dies);
            found.dies += 1;
        }
        "L3Cache" => {
            position.l3 = Some(found.l3s);
            found.l3s += 1;
        }
        "NUMANode" => found.nodes.push(node(object)?),
        "Core" => {
            let cpus = set(object, "cpuset").ok_or("a core without a cpuset")?;
            found.cores.push((cpus.iter().collect(), position));
            return Ok(());
        }
        // Where the kernel tells of no cores, each CPU is one.
        "PU" => {
            let cpus = set(object, "cpuset").ok_or("a CPU without a cpuset")?;
            found.cores.push((cpus.iter().collect(), position));
            return Ok(());
        }
        _ => {}
    }
    object
        .children()
        .filter(|child| child.has_tag_name("object"))
        .try_for_each(|child| walk(child, position, found))
}

fn node(object: Element) -> Result<Node, String> {
    let number = |name| object.attribute(name).and_then(|text| text.parse::<u64>().ok());
    let os_index = number("os_index").and_then(|index| u32::try_from(index).ok());
    let pages = object.children().filter(|child| child.has_tag_name("page_type"));
    let page = |page: Element| {
        Some((page.attribute("size")?.parse().ok()?, page.attribute("count")?.parse().ok()?))
    };
    Ok(Node {
        number: os_index.ok_or("a node without a number")?,
        cpus: set(object, "cpuset").unwrap_or_default(),
        bytes: number("local_memory").unwrap_or(0),
        special: object
            .attribute("subtype")
            .filter(|subtype| *subtype != "DRAM")
            .map(str::to_owned),
        huge_pages: pages.filter_map(page).filter(|(size, _)| *size >= 1 << 20).collect(),
    })
}

/// Sets of CPUs of the same kind, the slowest first.
fn kinds(root: Element) -> Vec<NumberSet> {
    let mut kinds: Vec<(i64, NumberSet)> = root
        .children()
        .filter(|child| child.has_tag_name("cpukind"))
        .filter_map(|kind| {
            let speed = kind.attribute("forced_efficiency").and_then(|text| text.parse().ok());
            let frequency = kind
                .children()
                .find(|info| info.attribute("name") == Some("FrequencyMaxMHz"))
                .and_then(|info| info.attribute("value")?.parse().ok());
            Some((speed.or(frequency).unwrap_or(0), set(kind, "cpuset")?))
        })
        .collect();
    kinds.sort_by_key(|(speed, _)| *speed);
    // hwloc tells apart what differs in anything; here the speed counts.
    kinds.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1.insert_all(&later.1);
        }
        same
    });
    kinds.into_iter().map(|(_, cpus)| cpus).collect()
}

/// The matrix of the firmware's distances.
fn distances(root: Element) -> Result<Vec<(u32, u32, u32)>, String> {
    let is_latency = |child: &Element| {
        child.has_tag_name("distances2")
            && child.attribute("type") == Some("NUMANode")
            && child.attribute("name").is_none_or(|name| name == "NUMALatency")
            && child.attribute("indexing") == Some("os")
    };
    let Some(matrix) = root.children().find(is_latency) else { return Ok(Vec::new()) };
    let numbers = |tag: &str| -> Vec<u32> {
        let text = |child: Element| child.text().unwrap_or_default().to_owned();
        let texts: String = matrix
            .children()
            .filter(|child| child.has_tag_name(tag))
            .map(|child| text(child) + " ")
            .collect();
        texts.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let (nodes, values) = (numbers("indexes"), numbers("u64values"));
    if values.len() != nodes.len() * nodes.len() {
        return Err("its matrix of distances is damaged".into());
    }
    let pairs = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to)));
    Ok(pairs.zip(values).map(|((from, to), value)| (from, to, value)).collect())
}

/// Puts it together.
fn machine(
    found: Found,
    allowed: &NumberSet,
    kinds: &[NumberSet],
    distances: Vec<(u32, u32, u32)>,
    top: Element,
) -> Result<Machine, String> {
    let info = |name: &str| {
        let infos = top.descendants().filter(|child| child.has_tag_name("info"));
        let mut named = infos.filter(|info| info.attribute("name") == Some(name));
        named.find_map(|info| info.attribute("value")).unwrap_or_default().to_owned()
    };
    let mut machine = Machine {
        model: info("CPUModel").split_whitespace().collect::<Vec<_>>().join(" "),
        vendor: info("CPUVendor"),
        architecture: info("Architecture"),
        nodes: found.nodes,
        cores: Vec::new(),
        kinds: u32::try_from(kinds.len()).unwrap_or(1).max(1),
        distances,
    };
    machine.nodes.sort_by_key(|node| node.number);
    for (cpus, position) in found.cores {
        let cpus: Vec<u32> = cpus.into_iter().filter(|cpu| allowed.contains(*cpu)).collect();
        let Some(first) = cpus.first().copied() else { continue };
        let kind = kinds.iter().position(|kind| kind.contains(first)).unwrap_or(0);
        machine.cores.push(Core {
            node: home(&machine, first).ok_or("no node of it has memory")?,
            package: position.package,
            // Dies and caches are counted behind all those that stand for a socket.
            die: position.die.map_or(position.package, |die| found.packages + die),
            l3: position.l3.map_or(position.package, |l3| found.packages + l3),
            kind: u32::try_from(kind).unwrap_or(0),
            cpus,
        });
    }
    if machine.cores.is_empty() {
        return Err("it has no CPU that may be used".into());
    }
    Ok(machine)
}

/// The node that a CPU's memory comes from: of those with memory of the usual kind the one that is
/// next to it, the smallest first; else the nearest.
fn home(machine: &Machine, cpu: u32) -> Option<u32> {
    let usual = || machine.nodes.iter().filter(|node| node.bytes > 0 && node.special.is_none());
    let next = usual().filter(|node| node.cpus.contains(cpu)).min_by_key(|node| node.cpus.len());
    if let Some(next) = next {
        return Some(next.number);
    }
    let own = machine.nodes.iter().filter(|node| node.cpus.contains(cpu));
    let own = own.min_by_key(|node| node.cpus.len()).map(|node| node.number);
    let far = |node: &&Node| own.map_or(0, |own| machine.distance(own, node.number));
    usual().min_by_key(far).map(|node| node.number)
}

fn set(object: Element, attribute: &str) -> Option<NumberSet> {
    NumberSet::from_hwloc(object.attribute(attribute)?)
}
