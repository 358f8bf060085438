//! A page: labels on the left, what they label on the right, empty rows left out.

use crate::failure::Failure;
use crate::printer::{Printer, plain};

/// Rows of a page.
#[derive(Default)]
pub(crate) struct Page {
    rows: Vec<(&'static str, String)>,
}

const GAP: usize = 2;

impl Page {
    /// One more row; nothing to say is no row.
    pub(crate) fn row(&mut self, label: &'static str, value: impl Into<Option<String>>) {
        if let Some(value) = value.into()
            && !value.is_empty()
        {
            self.rows.push((label, value));
        }
    }

    /// Its lines. What came from elsewhere may hold anything, so each row is made one line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widest = self.rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
        self.rows.iter().map(|(label, value)| format!("{label:<0$}{1}", widest + GAP, plain(value))).collect()
    }

    /// Prints it as data.
    pub(crate) fn print(&self, printer: &mut Printer) -> Result<(), Failure> {
        self.lines().into_iter().try_for_each(|line| printer.line(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_aligned_and_values_stay_on_their_line() {
        let mut page = Page::default();
        page.row("lease", "k3f9-4".to_owned());
        page.row("session", None);
        page.row("resources", "a\n\u{1b}[31mb".to_owned());
        assert_eq!(page.lines(), ["lease      k3f9-4", "resources  a\u{fffd}\u{fffd}[31mb"]);
    }
}
