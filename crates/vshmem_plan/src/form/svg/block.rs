//! Parts of a drawing that know their size, put below and beside each other.

/// Between boxes, and between a box and what is in it.
pub(super) const GAP: u32 = 10;
/// Of a line of text.
pub(super) const LINE: u32 = 17;
/// Of a character. Wider than most, so that no text leaves its box in any usual typeface.
const CHARACTER: u32 = 7;

/// A part of a drawing, drawn from its upper left corner.
pub(super) struct Block {
    pub width: u32,
    pub height: u32,
    pub content: String,
    /// The class of its box; the box is drawn when its place is known.
    frame: Option<&'static str>,
}

impl Block {
    /// A block of that size, in pixels, that shows nothing.
    pub fn empty(width: u32, height: u32) -> Self {
        Self { width, height, content: String::new(), frame: None }
    }

    /// A line of text of that class.
    pub fn text(class: &str, text: &str) -> Self {
        let wide =
            if matches!(class, "title" | "heading" | "name") { CHARACTER + 1 } else { CHARACTER };
        let length = u32::try_from(text.chars().count()).unwrap_or(0);
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        Self {
            content: format!("<text{class} y=\"13\">{}</text>\n", escaped(text)),
            ..Self::empty(length * wide, LINE)
        }
    }

    /// Text that is broken into lines of that width between words.
    pub fn paragraph(text: &str, width: u32) -> Self {
        let most = (width / CHARACTER) as usize;
        let mut all = Self::empty(0, 0);
        let mut line = String::new();
        for word in text.split_inclusive([' ', ',']) {
            if line.len() + word.trim_end().len() > most && !line.is_empty() {
                all.below_close(Self::text("", line.trim()));
                line.clear();
            }
            line += word;
        }
        all.below_close(Self::text("", line.trim()));
        all
    }

    /// Adds another below, with a gap.
    pub fn below(&mut self, other: Self) {
        self.height += GAP / 2;
        self.below_close(other);
    }

    /// Adds another below, without a gap.
    pub fn below_close(&mut self, other: Self) {
        self.content +=
            &format!("<g transform=\"translate(0 {})\">{}</g>\n", self.height, other.content);
        self.width = self.width.max(other.width);
        self.height += other.height;
    }

    /// Adds another at that distance from the left edge.
    pub fn beside(&mut self, other: Self, x: u32) {
        self.content += &format!("<g transform=\"translate({x} 0)\">{}</g>", other.content);
        self.width = self.width.max(x + other.width);
        self.height = self.height.max(other.height);
    }

    /// The same in a box of that class.
    pub fn boxed(mut self, class: &'static str) -> Self {
        self.content = format!("<g transform=\"translate({GAP} {GAP})\">{}</g>", self.content);
        self.width += 2 * GAP;
        self.height += 2 * GAP;
        self.frame = Some(class);
        self
    }
}

/// Blocks in rows of that width, as many in each row. Boxes of one row are equally high.
pub(super) fn flow(blocks: Vec<Block>, width: u32) -> Block {
    let count = blocks.len();
    let needed = rows(blocks, width, count);
    let even = count.div_ceil(needed.len().max(1));
    let rows = rows(needed.into_iter().flatten().collect(), width, even);
    let mut all = Block::empty(0, 0);
    for row in rows {
        let height = row.iter().map(|block| block.height).max().unwrap_or(0);
        let mut line = Block::empty(0, height);
        let mut x = 0;
        for mut block in row {
            if let Some(class) = block.frame {
                let of = format!("class=\"box {class}\" width=\"{}\"", block.width);
                block.content =
                    format!("<rect {of} height=\"{height}\" rx=\"5\"/>{}", block.content);
            }
            let after = x + block.width + GAP;
            line.beside(block, x);
            x = after;
        }
        if all.height > 0 {
            all.height += GAP;
        }
        all.below_close(line);
    }
    all
}

/// Rows of that width with at most so many blocks.
fn rows(blocks: Vec<Block>, width: u32, most: usize) -> Vec<Vec<Block>> {
    let mut rows: Vec<Vec<Block>> = Vec::new();
    let mut used = 0;
    for block in blocks {
        used += block.width + GAP;
        match rows.last_mut() {
            Some(row) if used <= width + GAP && row.len() < most => row.push(block),
            _ => {
                used = block.width + GAP;
                rows.push(vec![block]);
            }
        }
    }
    rows
}

/// As XML has it.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
