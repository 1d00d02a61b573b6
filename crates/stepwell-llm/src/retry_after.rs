//! How long a server asks us to wait, in both forms of `Retry-After`.

use std::time::SystemTime;

/// Milliseconds in the text of a `Retry-After` header: a number of seconds or an HTTP date.
///
/// Fractions of a second, which the standard does not know but servers send, are taken. A date in
/// the past is no wait. A number beyond `u64` is the longest wait there is; whoever waits has the
/// cap. Rounded up, so that nobody comes back too early. `None` for anything else.
pub fn retry_after_ms(text: &str, now: SystemTime) -> Option<u64> {
    let text = text.trim();
    if let Some(wait_ms) = decimal_ms(text, 1_000) {
        return Some(wait_ms);
    }
    let due = httpdate::parse_http_date(text).ok()?;
    let wait = due.duration_since(now).unwrap_or_default();
    Some(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// Milliseconds in the text of a `retry-after-ms` header, which OpenAI and Azure send.
pub fn retry_after_ms_exact(text: &str) -> Option<u64> {
    decimal_ms(text.trim(), 1)
}

/// A decimal number without sign and exponent, times `scale` (a power of ten, at most 1000).
fn decimal_ms(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    // Only digits are left, so the one way to fail is to be too large.
    let whole = whole.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(scale);
    let mut unit = scale;
    let mut part = 0;
    let mut rounds_up = false;
    for digit in fraction.bytes().map(|byte| u64::from(byte - b'0')) {
        unit /= 10;
        part += digit * unit;
        rounds_up |= unit == 0 && digit > 0;
    }
    Some(whole.saturating_add(part).saturating_add(u64::from(rounds_up)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 10:00:00 GMT").unwrap();
        assert_eq!(retry_after_ms(text, now), expected, "{text:?}");
    }

    #[test]
    fn seconds_are_taken() {
        check("7", Some(7_000));
        check(" 0 ", Some(0));
        check("1.5", Some(1_500));
        check("0.0001", Some(1));
        check("2.0000", Some(2_000));
    }

    #[test]
    fn huge_seconds_saturate() {
        check("99999999999", Some(99_999_999_999_000));
        check("99999999999999999999999999", Some(u64::MAX));
    }

    #[test]
    fn dates_are_taken() {
        check("Mon, 30 Nov 2026 10:00:20 GMT", Some(20_000));
        check("Monday, 30-Nov-26 10:00:20 GMT", Some(20_000));
        check("Sun, 29 Nov 2026 10:00:00 GMT", Some(0));
    }

    #[test]
    fn a_date_is_never_rounded_down() {
        let date = "Mon, 30 Nov 2026 10:00:20 GMT";
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 10:00:00 GMT").unwrap();
        let now = now + Duration::from_nanos(999_999_999);
        assert_eq!(retry_after_ms(date, now), Some(19_001));
    }

    #[test]
    fn anything_else_is_no_answer() {
        for text in ["", "soon", "-5", "+5", "1e3", ".5", "5.", "1.2.3", "0x10", "NaN", "30 Nov"] {
            check(text, None);
        }
    }

    #[test]
    fn the_other_header_counts_milliseconds() {
        assert_eq!(retry_after_ms_exact("1200"), Some(1_200));
        assert_eq!(retry_after_ms_exact("1200.3"), Some(1_201));
        assert_eq!(retry_after_ms_exact("soon"), None);
    }
}
