//! Colours. Light fills with dark text, and the other way round on a dark screen.

use super::super::picture::Owner;

/// The guests' classes; a plan with more guests begins again, and the letters tell them apart.
const GUESTS: [&str; 8] = ["g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7"];

/// The class of what is someone's.
pub(super) fn class(owner: Owner) -> &'static str {
    match owner {
        Owner::Host => "host",
        Owner::Guest(number) => GUESTS[number % GUESTS.len()],
        Owner::Pool(_) => "pool",
        Owner::Unused => "unused",
    }
}

/// Of the whole drawing.
pub(super) const STYLE: &str = "
text{font:12px sans-serif;fill:#1a1a1a;white-space:pre}
.title{font-size:14px;font-weight:bold}.heading{font-size:13px;font-weight:bold}.name{font-weight:bold}
.mark{font-size:11px;text-anchor:middle}
rect{stroke:#555;stroke-width:1}
.paper{fill:#fff;stroke:none}
.socket{fill:#f4f4f4}.node{fill:#fff}.cache{fill:none;stroke-dasharray:3 2}
.host{fill:#c8c8c8}.unused{fill:#fff;stroke-dasharray:2 2}.pool{fill:#ffe08a;stroke-width:2}
.g0{fill:#a9d3f5}.g1{fill:#f7c3a0}.g2{fill:#b5e3b0}.g3{fill:#e3b8e8}
.g4{fill:#f5b5c0}.g5{fill:#a8e3dd}.g6{fill:#d9d59a}.g7{fill:#c3c6f2}
@media screen and (prefers-color-scheme:dark){
text{fill:#eee}rect{stroke:#aaa}.paper{fill:#161616}.socket{fill:#222}.node{fill:#161616}
.cache{fill:none}.host{fill:#555}.unused{fill:#161616}.pool{fill:#6b5510}
.g0{fill:#1d4e79}.g1{fill:#80431a}.g2{fill:#2a6126}.g3{fill:#66336e}
.g4{fill:#7a2f3e}.g5{fill:#1d625b}.g6{fill:#5a571f}.g7{fill:#3d4189}
}
";
