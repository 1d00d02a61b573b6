//! What is known of a stretch of brackets without looking into it.

/// Rows are counted apart for so many depths, from the shallowest one of a stretch on.
pub(super) const LEVELS: usize = 8;

/// Sums over a stretch of brackets. All depths are relative to its beginning, so that a stretch can
/// be moved without being touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    /// Openings less closings.
    pub(super) delta: i32,
    /// Openings.
    pub(super) rows: u32,
    /// Depth of the shallowest opening; without meaning when there is none.
    low: i32,
    /// Openings at `low`, at `low + 1` …; those that are deeper still only count in `rows`.
    at: [u32; LEVELS],
}

impl Sum {
    /// Nothing.
    pub(super) const NONE: Self = Self { delta: 0, rows: 0, low: 0, at: [0; LEVELS] };
    /// One opening.
    pub(super) const OPEN: Self = Self { delta: 1, rows: 1, low: 0, at: [1, 0, 0, 0, 0, 0, 0, 0] };
    /// One closing.
    pub(super) const CLOSE: Self = Self { delta: -1, rows: 0, low: 0, at: [0; LEVELS] };

    /// One stretch after the other.
    pub(super) fn then(&self, next: &Self) -> Self {
        let mut sum = *self;
        sum.delta += next.delta;
        sum.rows += next.rows;
        let next_low = next.low + self.delta;
        if next.rows == 0 {
            return sum;
        }
        if self.rows == 0 {
            sum.low = next_low;
            sum.at = next.at;
            return sum;
        }
        if next_low >= self.low {
            shift_in(&mut sum.at, &next.at, next_low - self.low);
        } else {
            sum.low = next_low;
            sum.at = next.at;
            shift_in(&mut sum.at, &self.at, self.low - next_low);
        }
        sum
    }

    /// Openings at most `depth_max` deep in a stretch that begins at depth 0; all without a limit.
    /// `depth_max` must be below [`LEVELS`].
    pub(super) fn rows_to(&self, depth_max: Option<u32>) -> u32 {
        let Some(depth_max) = depth_max else { return self.rows };
        if self.rows == 0 {
            return 0;
        }
        let levels = i64::from(depth_max) - i64::from(self.low) + 1;
        self.at.iter().take(usize::try_from(levels).unwrap_or(0)).sum()
    }
}

/// Adds counts that begin `by` levels deeper.
fn shift_in(to: &mut [u32; LEVELS], from: &[u32; LEVELS], by: i32) {
    let by = usize::try_from(by).unwrap_or(LEVELS);
    for (count, more) in to.iter_mut().skip(by).zip(from) {
        *count += more;
    }
}
