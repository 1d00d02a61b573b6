//! Times, durations, sizes and numbers as a person would say them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// `3 min ago`, `in 2 h`, `now`; `-` for none; `never` for the end of time.
pub(crate) fn relative(time_ms: i64, now_ms: i64) -> String {
    match time_ms {
        0 => return "-".into(),
        i64::MAX => return "never".into(),
        _ => {}
    }
    let distance_ms = now_ms.abs_diff(time_ms);
    if distance_ms < SECOND_MS {
        return "now".into();
    }
    let words = coarse(distance_ms);
    if time_ms > now_ms { format!("in {words}") } else { format!("{words} ago") }
}

/// The one unit that a person would use.
fn coarse(ms: u64) -> String {
    let plural = |count: u64, unit: &str| {
        if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
    };
    match ms {
        _ if ms < MINUTE_MS => format!("{} s", ms / SECOND_MS),
        _ if ms < HOUR_MS => format!("{} min", ms / MINUTE_MS),
        _ if ms < 2 * DAY_MS => format!("{} h", ms / HOUR_MS),
        _ if ms < 14 * DAY_MS => plural(ms / DAY_MS, "day"),
        _ if ms < 60 * DAY_MS => plural(ms / (7 * DAY_MS), "week"),
        _ if ms < 730 * DAY_MS => plural(ms / (30 * DAY_MS), "month"),
        _ => plural(ms / (365 * DAY_MS), "year"),
    }
}

/// `850 ms`, `1.9 s`, `3 min 12 s`, `2 h 5 min`, `3 days 4 h`.
pub(crate) fn duration(ms: u64) -> String {
    let two = |big: u64, big_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big} {big_unit}"),
        _ => format!("{big} {big_unit} {small} {small_unit}"),
    };
    match ms {
        _ if ms < SECOND_MS => format!("{ms} ms"),
        _ if ms < 10 * SECOND_MS => format!("{}.{} s", ms / SECOND_MS, ms % SECOND_MS / 100),
        _ if ms < MINUTE_MS => format!("{} s", ms / SECOND_MS),
        _ if ms < HOUR_MS => two(ms / MINUTE_MS, "min", ms % MINUTE_MS / SECOND_MS, "s"),
        _ if ms < DAY_MS => two(ms / HOUR_MS, "h", ms % HOUR_MS / MINUTE_MS, "min"),
        _ if ms < 2 * DAY_MS => two(1, "day", ms % DAY_MS / HOUR_MS, "h"),
        _ => two(ms / DAY_MS, "days", ms % DAY_MS / HOUR_MS, "h"),
    }
}

/// `2026-07-30 12:03:04 CEST`; the number itself for a time that no calendar has.
pub(crate) fn absolute(time_ms: i64, zone: &TimeZone) -> String {
    format_time(time_ms, zone, "%Y-%m-%d %H:%M:%S %Z")
}

/// `12:03:04`.
pub(crate) fn clock(time_ms: i64, zone: &TimeZone) -> String {
    format_time(time_ms, zone, "%H:%M:%S")
}

fn format_time(time_ms: i64, zone: &TimeZone, format: &str) -> String {
    match Timestamp::from_millisecond(time_ms) {
        Ok(time) => time.to_zoned_datetime(zone.clone()).strftime(format).to_string(),
        Err(_) => time_ms.to_string(),
    }
}

/// `512 B`, `12.3 KB`, `4.0 GB`, in powers of 1000.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if count < 1_000 {
        return format!("{count} B");
    }
    let mut tenths = count / 100;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for next in units {
        if tenths < 10_000 {
            break;
        }
        tenths /= 1_000;
        unit = next;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// `1,234,567`.
pub(crate) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 session`, `2 sessions`, `1,234 sessions`.
pub(crate) fn counted(count: impl TryInto<u64>, thing: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        count => format!("{} {thing}s", number(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_one_unit() {
        const NOW: i64 = 1_800_000_000_000;
        for (before_ms, words) in [
            (0, "now"),
            (999, "now"),
            (12_000, "12 s ago"),
            (59_999, "59 s ago"),
            (180_000, "3 min ago"),
            (2 * 3_600_000, "2 h ago"),
            (47 * 3_600_000, "47 h ago"),
            (5 * 86_400_000, "5 days ago"),
            (21 * 86_400_000, "3 weeks ago"),
            (90 * 86_400_000, "3 months ago"),
            (800 * 86_400_000, "2 years ago"),
            (-180_000, "in 3 min"),
        ] {
            assert_eq!(relative(NOW - before_ms, NOW), words, "{before_ms}");
        }
        assert_eq!(relative(0, NOW), "-");
        assert_eq!(relative(i64::MAX, NOW), "never");
    }

    #[test]
    fn durations_keep_two_units() {
        // The viewer reads the same table, so that both say the same.
        let table: Vec<(u64, String)> =
            serde_json::from_str(include_str!("durations.json")).unwrap();
        assert!(table.len() > 20);
        for (ms, words) in table {
            assert_eq!(duration(ms), words, "{ms}");
        }
    }

    #[test]
    fn sizes_and_numbers() {
        for (count, words) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 KB"),
            (12_345, "12.3 KB"),
            (999_999, "999.9 KB"),
            (1_000_000, "1.0 MB"),
            (4_000_000_000, "4.0 GB"),
        ] {
            assert_eq!(bytes(count), words);
        }
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(counted(1, "session"), "1 session");
        assert_eq!(counted(0, "session"), "0 sessions");
        assert_eq!(counted(1234, "session"), "1,234 sessions");
    }

    #[test]
    fn calendar_times_name_their_zone() {
        assert_eq!(absolute(0, &TimeZone::UTC), "1970-01-01 00:00:00 UTC");
        assert_eq!(clock(3_661_000, &TimeZone::UTC), "01:01:01");
        assert_eq!(clock(i64::MAX, &TimeZone::UTC), i64::MAX.to_string());
    }
}
