//! A strip plot: all figures of a case on one line, outliers marked.

use maud::{Markup, html};

const WIDTH: f64 = 100.0;
const HEIGHT: f64 = 16.0;

/// From the smallest to the largest.
pub fn strip_plot(figures: &[(f64, bool)]) -> Markup {
    let ends = figures
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), (one, _)| (low.min(*one), high.max(*one)));
    let range = (ends.1 - ends.0).max(f64::MIN_POSITIVE);
    let place = |figure: f64| format!("{:.1}", 4.0 + (figure - ends.0) / range * (WIDTH - 8.0));
    html! {
        svg class="strip" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) height=(HEIGHT) {
            line x1="2" y1="8" x2=(WIDTH - 2.0) y2="8" {}
            @for (figure, odd) in figures {
                circle cx=(place(*figure)) cy="8" r="3" class=[odd.then_some("odd")] {}
            }
        }
    }
}
