//! One line for each measure: name, value, unit, ratio to the limit, goal, verdict.

use serde_json::json;

/// Which side of the goal is good.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// The ratio should be at most this.
    RatioAtMost(f64),
    /// The ratio should be at least this.
    RatioAtLeast(f64),
    /// The value itself should be at most this.
    ValueAtMost(f64),
    /// The value itself should be at least this.
    ValueAtLeast(f64),
    /// Reported only.
    None,
}

/// One measured thing.
pub(crate) struct Measure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The same on bare SQLite, in the same unit and run; `None` where the limit is 0.
    pub(crate) limit: Option<f64>,
    /// Value against limit, as the goal counts it.
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Goal,
}

impl Measure {
    fn verdict(&self) -> &'static str {
        let good = match self.goal {
            Goal::RatioAtMost(goal) => self.ratio.is_some_and(|ratio| ratio <= goal),
            Goal::RatioAtLeast(goal) => self.ratio.is_some_and(|ratio| ratio >= goal),
            Goal::ValueAtMost(goal) => self.value <= goal,
            Goal::ValueAtLeast(goal) => self.value >= goal,
            Goal::None => true,
        };
        if good { "ok" } else { "short" }
    }

    fn goal_text(&self) -> String {
        match self.goal {
            Goal::RatioAtMost(goal) => format!("ratio <= {goal}"),
            Goal::RatioAtLeast(goal) => format!("ratio >= {goal}"),
            Goal::ValueAtMost(goal) => format!("<= {goal} {}", self.unit),
            Goal::ValueAtLeast(goal) => format!(">= {goal} {}", self.unit),
            Goal::None => "-".to_string(),
        }
    }

    /// Prints the line, or one JSON object.
    #[expect(clippy::print_stdout, reason = "the report is the program's output")]
    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            let line = json!({
                "name": self.name,
                "value": self.value,
                "unit": self.unit,
                "limit": self.limit,
                "ratio": self.ratio,
                "goal": self.goal_text(),
                "verdict": self.verdict(),
            });
            println!("{line}");
            return;
        }
        let ratio = self.ratio.map_or("-".to_string(), |ratio| format!("{ratio:.2}"));
        let limit = self.limit.map_or("-".to_string(), |limit| format!("{limit:.3}"));
        println!(
            "{:<44} {:>12.3} {:<10} limit {:>12} ratio {:>7}  goal {:<18} {}",
            self.name,
            self.value,
            self.unit,
            limit,
            ratio,
            self.goal_text(),
            self.verdict()
        );
    }
}
