//! Columns for people. A table that is too wide for its terminal cuts its widest cells, never inside a character.

use crate::printer::plain;

/// Rows under headings.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

const GAP: usize = 2;
/// No column is cut below this.
const WIDTH_MIN: usize = 8;

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.headings.len(), "invariant: one cell per heading");
        self.rows.push(cells.iter().map(|cell| plain(cell)).collect());
    }

    pub(crate) fn lines(&self, columns: Option<usize>) -> Vec<String> {
        let widths = self.widths(columns);
        let headings: Vec<String> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        std::iter::once(&headings).chain(&self.rows).map(|cells| line(cells, &widths)).collect()
    }

    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headings.iter().map(|heading| width(heading)).collect();
        for cells in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(cells) {
                *widest = (*widest).max(width(cell));
            }
        }
        let gaps = GAP * widths.len().saturating_sub(1);
        while let Some(columns) = columns
            && widths.iter().sum::<usize>() + gaps > columns
            && let Some(widest) = widths.iter_mut().max()
            && *widest > WIDTH_MIN
        {
            *widest -= 1;
        }
        widths
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, wanted) in cells.iter().zip(widths) {
        let cell = fit(cell, *wanted);
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', wanted - width(&cell) + GAP));
    }
    line.truncate(line.trim_end().len());
    line
}

fn fit(cell: &str, wanted: usize) -> String {
    if width(cell) <= wanted {
        return cell.to_owned();
    }
    let mut cut: String = cell.chars().take(wanted.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "RESOURCES", "AGE"]);
        table.row(vec!["a-1".into(), "höhle/eins, höhle/zwei".into(), "3 s".into()]);
        table.row(vec!["a-22".into(), "x\ny".into(), "90 s".into()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = table().lines(None);
        assert_eq!(
            lines,
            [
                "ID    RESOURCES               AGE",
                "a-1   höhle/eins, höhle/zwei  3 s",
                "a-22  x\u{fffd}y                     90 s"
            ]
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_the_widest_cells_between_characters() {
        for columns in 24..40 {
            for line in table().lines(Some(columns)) {
                assert!(width(&line) <= columns, "{line:?} in {columns}");
            }
        }
        assert_eq!(table().lines(Some(24))[1], "a-1   höhle/eins,…  3 s");
    }

    #[test]
    fn a_terminal_that_is_far_too_narrow_is_overrun() {
        assert_eq!(table().lines(Some(1))[0], "ID    RESOURC…  AGE");
    }
}
