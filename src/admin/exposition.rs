//! Prometheus's text format: families with their help and type, then their samples.

use crate::metrics::Reading;
use std::fmt::Write;

/// The media type of the format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Label names and values of a sample.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// The text under construction.
#[derive(Default)]
pub(super) struct Text {
    out: String,
    family: &'static str,
}

impl Text {
    /// Begins a family; the samples that follow belong to it.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.family = name;
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &'static str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub fn sample(&mut self, labels: Labels<'_>, value: f64) {
        self.line("", labels, None, value);
    }

    /// A histogram's samples; its values are told in units of `unit`.
    pub fn histogram(&mut self, labels: Labels<'_>, reading: &Reading, unit: f64) {
        for (bound, count) in &reading.cumulative {
            self.line("_bucket", labels, Some(&format!("{}", float(*bound) / unit)), float(*count));
        }
        self.line("_bucket", labels, Some("+Inf"), float(reading.count));
        self.line("_sum", labels, None, float(reading.sum) / unit);
        self.line("_count", labels, None, float(reading.count));
    }

    pub fn into_string(self) -> String {
        self.out
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&str>, value: f64) {
        let out = &mut self.out;
        let _ = write!(out, "{}{suffix}", self.family);
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut open = '{';
        for (name, value) in labels {
            let _ = write!(out, "{open}{name}=\"");
            value.chars().for_each(|character| match character {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                other => out.push(other),
            });
            out.push('"');
            open = ',';
        }
        if open == ',' {
            out.push('}');
        }
        let _ = writeln!(out, " {value}");
    }
}

/// Exact up to 2^53, as all numbers of the format are.
#[expect(clippy::cast_precision_loss, reason = "the format has no integers")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Histogram;

    #[test]
    fn labels_are_escaped_and_histograms_are_cumulative() {
        let mut text = Text::default();
        text.family("a_total", Kind::Counter, "What.");
        text.sample(&[("x", "a\"b\\c\nd"), ("y", "")], 3.0);
        let histogram = Histogram::counts();
        [1, 3, 5000].iter().for_each(|value| histogram.note(*value));
        text.family("b", Kind::Histogram, "How many.");
        text.histogram(&[], &histogram.read(), 1.0);
        let text = text.into_string();
        assert!(text.contains("# TYPE a_total counter\na_total{x=\"a\\\"b\\\\c\\nd\",y=\"\"} 3\n"), "{text}");
        assert!(text.contains("b_bucket{le=\"2\"} 1\nb_bucket{le=\"4\"} 2\n"), "{text}");
        assert!(text.ends_with("b_bucket{le=\"+Inf\"} 3\nb_sum 5004\nb_count 3\n"), "{text}");
    }
}
