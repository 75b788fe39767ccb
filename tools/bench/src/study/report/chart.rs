//! Figures: lines over a logarithmic axis, intervals below each other, distributions. Each is an
//! SVG that needs nothing else.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::conclusions::Meaning;
use super::ticks;

/// A point with its interval.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

/// Points that belong together.
#[derive(Debug, Clone)]
pub struct Line {
    pub name: String,
    pub points: Vec<Point>,
    /// Of the palette.
    pub colour: usize,
    /// Of the marks.
    pub mark: usize,
    /// A distribution: steps from point to point, marked here only.
    pub stops: Option<Vec<(f64, f64)>>,
}

/// What the vertical axis is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Each power of ten as high as the next.
    Logarithmic,
    /// From zero, each unit as high as the next.
    FromZero,
    /// Of parts of a whole: as high as there are nines (see [`nines`]).
    Nines,
}

/// How high a part of a whole is: 0.9 at 1, 0.99 at 2.
pub fn nines(part: f64) -> f64 {
    -(1.0 - part).max(1e-5).log10()
}

/// Back from there, in percent.
pub fn percent_of_nines(nines: f64) -> String {
    match nines {
        0.0 => "0 %".into(),
        nines if nines < 0.5 => "50 %".into(),
        1.0 => "90 %".into(),
        nines if nines < 2.5 => "99 %".into(),
        nines if nines < 3.5 => "99.9 %".into(),
        _ => "99.99 %".into(),
    }
}

/// How large: one for desks and paper, one for phones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    pub width: u32,
    pub height: u32,
    pub text: u32,
}

/// For a desk, and for paper.
pub const WIDE: Format = Format { width: 760, height: 400, text: 17 };
/// For a phone.
pub const NARROW: Format = Format { width: 360, height: 320, text: 15 };
/// One of several beside each other.
pub const SMALL: Format = Format { width: 370, height: 290, text: 15 };

/// Distinguishable for those who see few colours, too (Okabe and Ito).
const PALETTE: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(70, 70, 70),
    RGBColor(150, 120, 40),
];
const GRID: RGBColor = RGBColor(225, 225, 225);
const INK: RGBColor = RGBColor(50, 50, 50);

type Failure = Box<dyn std::error::Error>;

/// Lines over logarithmic axes.
#[derive(Debug, Clone)]
pub struct Curves<'a> {
    pub x_name: &'a str,
    pub y_name: &'a str,
    pub lines: Vec<Line>,
    pub show_x: fn(f64) -> String,
    pub show_y: fn(f64) -> String,
    /// Sizes in bytes.
    pub by_twos: bool,
    pub scale: Scale,
}

impl Curves<'_> {
    /// Whether anything is above zero.
    pub fn rises(&self) -> bool {
        self.lines.iter().flat_map(|line| &line.points).any(|point| point.high > 0.0)
    }

    /// The figure; none if there is nothing to show.
    pub fn draw(&self, format: Format) -> Option<String> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        points().next()?;
        let ends = |of: fn(&Point) -> [f64; 2]| {
            let all = points().flat_map(of).filter(|end| *end > 0.0);
            all.fold((f64::MAX, 0.0_f64), |(low, high), end| (low.min(end), high.max(end)))
        };
        let (x0, x1) = ends(|point| [point.x, point.x]);
        let (y0, y1) =
            ends(|point| [point.low.max(point.y / 10.0), point.high.min(point.y * 10.0)]);
        let (x_most, y_most) = if format.width < 500 { (5, 6) } else { (9, 8) };
        let (x0, x1) = if x0 == x1 { (x0 / 3.0, x1 * 3.0) } else { (x0 / 1.3, x1 * 1.3) };
        // Orders of matrices, mostly, and other sizes that are powers of two or some of one.
        let is_binary = points().all(|point| point.x >= 32.0 && point.x % 32.0 == 0.0);
        let x_ticks = match self.by_twos || is_binary {
            true => ticks::by_twos(x0, x1, x_most),
            false => ticks::logarithmic(x0, x1, x_most),
        };
        let x = Axis::logarithmic(x0..x1, x_ticks);
        let y = match self.scale {
            Scale::FromZero => Axis::linear(0.0..y1 * 1.08, ticks::linear(y1 * 1.08, y_most)),
            Scale::Nines => {
                let ticks = [0.0, nines(0.5), 1.0, 2.0, 3.0, 4.0].into_iter();
                Axis::linear(0.0..y1 * 1.04, ticks.filter(|tick| *tick <= y1 * 1.04).collect())
            }
            Scale::Logarithmic => {
                let (y0, y1) = (y0 / 1.4, y1 * 1.4);
                Axis::logarithmic(y0..y1, ticks::logarithmic(y0, y1, y_most))
            }
        };
        let mut svg = String::new();
        self.onto(&mut svg, format, x, y).ok().map(|()| scaled(&svg))
    }

    fn onto(&self, svg: &mut String, format: Format, x: Axis, y: Axis) -> Result<(), Failure> {
        let Format { width, height, text } = format;
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        let legend = Legend::of(&names, format);
        let root =
            SVGBackend::with_string(svg, (width, height + legend.height)).into_drawing_area();
        let (plot, below) = root.split_vertically(height);
        let mut chart = ChartBuilder::on(&plot)
            .margin(6)
            .margin_right(16)
            .x_label_area_size(text * 3)
            .y_label_area_size(text * 6)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x_name)
            .y_desc(self.y_name)
            .x_labels(30)
            .y_labels(30)
            .x_label_formatter(&|x| (self.show_x)(*x))
            .y_label_formatter(&|y| (self.show_y)(*y))
            .label_style(("sans-serif", text).into_font().color(&INK))
            .axis_desc_style(("sans-serif", text).into_font().color(&INK))
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .draw()?;
        for line in &self.lines {
            let colour = PALETTE[line.colour % PALETTE.len()];
            chart.draw_series(LineSeries::new(line.path(), colour.stroke_width(2)))?;
            let marks = match &line.stops {
                Some(stops) => stops.clone(),
                None => {
                    for point in &line.points {
                        let bar = [(point.x, point.low), (point.x, point.high)];
                        chart.draw_series([PathElement::new(bar, colour.stroke_width(1))])?;
                    }
                    line.points.iter().map(|point| (point.x, point.y)).collect()
                }
            };
            for at in marks {
                mark(&plot, chart.backend_coord(&at), line.mark, colour)?;
            }
        }
        legend.draw(&below, &self.lines)?;
        root.present()?;
        Ok(())
    }
}

impl Line {
    /// From point to point; of a distribution, across and then up.
    fn path(&self) -> Vec<(f64, f64)> {
        let mut path: Vec<(f64, f64)> = Vec::new();
        for point in &self.points {
            if let (Some(&(_, before)), true) = (path.last(), self.stops.is_some()) {
                path.push((point.x, before));
            }
            path.push((point.x, point.y));
        }
        path
    }
}

/// Intervals below each other over a logarithmic axis of ratios, with a line at 1.
#[derive(Debug, Clone)]
pub struct Intervals<'a> {
    pub x_name: &'a str,
    /// A name, the ratio with its interval in `x` terms (`y` is not used), and what it means.
    pub rows: Vec<(String, Point, Meaning)>,
}

impl Intervals<'_> {
    /// The figure; none if there is nothing to show.
    pub fn draw(&self, format: Format) -> Option<String> {
        if self.rows.is_empty() {
            return None;
        }
        let mut svg = String::new();
        self.onto(&mut svg, format).ok().map(|()| scaled(&svg))
    }

    /// Of the axis: an interval that is much wider than the ratios are apart is cut.
    fn ends(&self) -> (f64, f64) {
        const MOST: f64 = 5.0;
        let over = |of: fn(&Point) -> [f64; 2]| {
            let all = self.rows.iter().flat_map(move |(_, point, _)| of(point));
            all.filter(|end| *end > 0.0)
                .fold((1.0_f64, 1.0_f64), |(low, high), end| (low.min(end), high.max(end)))
        };
        let (ratios, intervals) = (over(|point| [point.x; 2]), over(|one| [one.low, one.high]));
        (
            ratios.0.min(intervals.0.max(ratios.0 / MOST)) / 1.3,
            ratios.1.max(intervals.1.min(ratios.1 * MOST)) * 1.3,
        )
    }

    fn onto(&self, svg: &mut String, format: Format) -> Result<(), Failure> {
        let Format { width, text, .. } = format;
        let (low, high) = self.ends();
        // A phone has room for the names only above their bars.
        let stacked = width < 500;
        let each = if stacked { text * 2 + 8 } else { text + 8 };
        let height = each * self.rows.len() as u32 + text * 4;
        let root = SVGBackend::with_string(svg, (width, height)).into_drawing_area();
        let longest = self.rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
        // A letter is about half as wide as it is high.
        let beside = (longest as u32 * text * 54 / 100 + 12).min(width * 6 / 10);
        let (names, most) = if stacked { (24, 5) } else { (beside, 7) };
        let count = self.rows.len() as f64;
        let mut chart = ChartBuilder::on(&root)
            .margin(6)
            .margin_right(16)
            .margin_left(names)
            .x_label_area_size(text * 3)
            .build_cartesian_2d(
                Axis::logarithmic(low..high, ticks::logarithmic(low, high, most)),
                0.0..count,
            )?;
        chart
            .configure_mesh()
            .x_desc(self.x_name)
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(30)
            .x_label_formatter(&|x| super::words::tick(*x))
            .label_style(("sans-serif", text).into_font().color(&INK))
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .draw()?;
        chart.draw_series([PathElement::new([(1.0, 0.0), (1.0, count)], INK.stroke_width(1))])?;
        for (nth, (name, point, meaning)) in self.rows.iter().enumerate() {
            let row = count - nth as f64;
            let (y, name_y) =
                if stacked { (row - 0.75, row - 0.35) } else { (row - 0.5, row - 0.5) };
            let colour = colour_of(*meaning);
            let bar = [(point.low.max(low), y), (point.high.min(high), y)];
            chart.draw_series([PathElement::new(bar, colour.stroke_width(2))])?;
            chart.draw_series([Circle::new((point.x, y), 4, colour.filled())])?;
            let (_, pixel) = chart.backend_coord(&(point.x, name_y));
            let across = if stacked { HPos::Left } else { HPos::Right };
            let style =
                ("sans-serif", text).into_font().color(&INK).pos(Pos::new(across, VPos::Center));
            let left = if stacked { names as i32 } else { names as i32 - 2 };
            root.draw(&Text::new(name.as_str(), (left, pixel), style))?;
        }
        root.present()?;
        Ok(())
    }
}

/// The colours of verdicts, on the page as well.
fn colour_of(meaning: Meaning) -> RGBColor {
    match meaning {
        Meaning::Gain => RGBColor(0, 112, 79),
        Meaning::Loss => RGBColor(179, 71, 0),
        Meaning::Context => RGBColor(0, 114, 178),
        Meaning::Open => RGBColor(130, 130, 130),
    }
}

/// A mark, in pixels of the figure; areas count their own.
fn mark(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    (x, y): (i32, i32),
    which: usize,
    colour: RGBColor,
) -> Result<(), Failure> {
    let (across, down) = area.get_pixel_range();
    let at = (x - across.start, y - down.start);
    match which % 4 {
        0 => area.draw(&Circle::new(at, 4, colour.filled()))?,
        1 => area.draw(&TriangleMarker::new(at, 5, colour.filled()))?,
        2 => area.draw(&Cross::new(at, 4, colour.stroke_width(2)))?,
        _ => area.draw(&Circle::new(at, 4, colour.stroke_width(2)))?,
    }
    Ok(())
}

/// Names below a figure, in as many columns as there is room for.
struct Legend {
    names: Vec<String>,
    columns: usize,
    height: u32,
    format: Format,
}

impl Legend {
    fn of(names: &[&str], format: Format) -> Self {
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
        let each = longest * format.text * 54 / 100 + 40;
        let columns = ((format.width - 16) / each.max(1)).max(1) as usize;
        let rows = names.len().div_ceil(columns) as u32;
        Self {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            columns,
            height: rows * (format.text + 6) + 8,
            format,
        }
    }

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        lines: &[Line],
    ) -> Result<(), Failure> {
        let Format { width, text, .. } = self.format;
        let wide = (width as i32 - 16) / self.columns as i32;
        let style = ("sans-serif", text).into_font().color(&INK);
        for (nth, (name, line)) in self.names.iter().zip(lines).enumerate() {
            let (column, row) = ((nth % self.columns) as i32, (nth / self.columns) as i32);
            let (x, y) = (12 + column * wide, 2 + row * (text as i32 + 6));
            let middle = y + text as i32 / 2 + 1;
            let colour = PALETTE[line.colour % PALETTE.len()];
            // A single point is no line.
            if line.points.len() > 1 {
                let ends = [(x, middle), (x + 22, middle)];
                area.draw(&PathElement::new(ends, colour.stroke_width(2)))?;
            }
            let (across, down) = area.get_pixel_range();
            mark(area, (across.start + x + 11, down.start + middle), line.mark, colour)?;
            area.draw(&Text::new(name.as_str(), (x + 28, y), style.clone()))?;
        }
        Ok(())
    }
}

/// As wide as its place instead of so many pixels.
fn scaled(svg: &str) -> String {
    let Some((head, rest)) = svg.split_once('>') else { return svg.to_owned() };
    let number = |name: &str| {
        let value = head.split_once(&format!("{name}=\""))?.1;
        value.split_once('"')?.0.parse::<u32>().ok()
    };
    let (Some(width), Some(height)) = (number("width"), number("height")) else {
        return svg.to_owned();
    };
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">{rest}"
    )
}
