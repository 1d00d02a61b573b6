//! TOML values as JSON text, in the order in which they were written.

use stepwell_core::json::write_string;
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeValue};

use super::reader::{Reader, in_order};

/// The JSON of `value`, with every key where its author put it. `None` after a problem was noted.
pub(super) fn from_toml(
    reader: &Reader<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Option<String> {
    let mut out = String::new();
    write(reader, key, value, &mut out)?;
    Some(out)
}

fn write(
    reader: &Reader<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    out: &mut String,
) -> Option<()> {
    let refuse = |why: &str| {
        reader.problem(value.span().start, format!("`{key}` {why}"));
        None
    };
    match value.get_ref() {
        DeValue::String(text) => write_string(text, out),
        DeValue::Boolean(flag) => out.push_str(if *flag { "true" } else { "false" }),
        DeValue::Integer(digits) => match integer(digits) {
            Some(text) => out.push_str(&text),
            None => return refuse("is a whole number that is too large"),
        },
        DeValue::Float(digits) => match float(digits) {
            Some(text) => out.push_str(&text),
            None => return refuse("cannot be sent: JSON has no such number"),
        },
        DeValue::Datetime(_) => {
            return refuse("cannot be sent: JSON has no times; put it in quotes");
        }
        DeValue::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(reader, key, item, out)?;
            }
            out.push(']');
        }
        DeValue::Table(table) => {
            out.push('{');
            for (i, (key, value)) in in_order(table).into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(key.value, out);
                out.push(':');
                write(reader, key.value, value, out)?;
            }
            out.push('}');
        }
    }
    Some(())
}

fn integer(digits: &DeInteger<'_>) -> Option<String> {
    i128::from_str_radix(digits.as_str(), digits.radix()).ok().map(|it| it.to_string())
}

fn float(digits: &DeFloat<'_>) -> Option<String> {
    let float: f64 = digits.as_str().parse().ok()?;
    serde_json::Number::from_f64(float).map(|it| it.to_string())
}
