//! Durations as people write them: `90s`, `1h30m`, `2.5d`.

/// The longest duration, in milliseconds: 1,000 years. What is longer means the same, "never", and
/// a time that far away still fits every place that times are kept in.
pub const DURATION_MS_MAX: u64 = 1_000 * 365 * 24 * 60 * 60 * 1_000;

/// Digits behind the point that count; the smallest unit is a millisecond.
const FRACTION_DIGITS_MAX: u32 = 9;

/// Units and their milliseconds.
const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// Reads a duration, in milliseconds. At least 1; huge ones are [`DURATION_MS_MAX`].
///
/// # Errors
/// What is wrong with it and how to write it.
pub fn read(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        return Err(format!("`{text}` is negative: a duration is at least 1ms"));
    }
    let mut rest = trimmed;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = part(text, rest)?;
        total = total.saturating_add(part);
        rest = after.trim_start();
    }
    match total {
        0 if trimmed.is_empty() => Err(not_a_duration(text)),
        0 => Err(format!("`{text}` is no time at all: a duration is at least 1ms")),
        total => Ok(total.min(DURATION_MS_MAX)),
    }
}

/// Reads one number and its unit off the front of `rest`.
fn part<'t>(text: &str, rest: &'t str) -> Result<(u64, &'t str), String> {
    let (whole, after) = split(rest, |it| it.is_ascii_digit());
    if whole.is_empty() {
        return Err(not_a_duration(text));
    }
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => split(after, |it| it.is_ascii_digit()),
        None => ("", after),
    };
    let (unit, after) = split(after.trim_start(), char::is_alphabetic);
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit: write for example {}", examples()));
    }
    let Some((_, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{text}` has the unknown unit `{unit}`: there is ms, s, m, h, d, w"));
    };
    // Digits that overflow are a huge number, not an error.
    let whole_ms = whole.parse().unwrap_or(u64::MAX).saturating_mul(*unit_ms);
    Ok((whole_ms.saturating_add(fraction_ms(fraction, *unit_ms)), after))
}

fn fraction_ms(digits: &str, unit_ms: u64) -> u64 {
    let (mut numerator, mut scale) = (0_u64, 1_u64);
    for digit in digits.chars().filter_map(|it| it.to_digit(10)).take(FRACTION_DIGITS_MAX as usize)
    {
        numerator = numerator * 10 + u64::from(digit);
        scale *= 10;
    }
    numerator.saturating_mul(unit_ms) / scale
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|it| !belongs(it)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn not_a_duration(text: &str) -> String {
    format!("`{text}` is no duration: write for example {}", examples())
}

/// How durations are written, for messages.
pub(super) fn examples() -> &'static str {
    "\"500ms\", \"90s\", \"1h30m\" or \"3d\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("500ms", 500),
            ("90s", 90_000),
            (" 5m ", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("3d", 259_200_000),
            ("2w", 1_209_600_000),
            ("1.5h", 5_400_000),
            ("0.25s", 250),
            ("10 s", 10_000),
        ] {
            assert_eq!(read(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn zero_negative_and_no_number_are_refused_and_huge_means_never() {
        for (text, says) in [
            ("0s", "no time at all"),
            ("0.0001s", "no time at all"),
            ("-5s", "negative"),
            ("nan", "no duration"),
            ("NaNs", "no duration"),
            ("inf", "no duration"),
            ("", "no duration"),
            ("90", "no unit"),
            ("1e3s", "unknown unit `e`"),
            ("5 minutes", "unknown unit `minutes`"),
            ("5s-", "no duration"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(says), "{text}: {problem}");
        }
        for huge in ["1000000000000s", "99999999999999999999999d", "9999999w9999999w"] {
            assert_eq!(read(huge), Ok(DURATION_MS_MAX), "{huge}");
        }
    }
}
