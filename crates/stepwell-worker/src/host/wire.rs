//! Messages to the server.

use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{
    AttachRequest, CallReport, HeldCall, Hello, OutputChunk, ToolOffer, attach_request,
};

use super::ledger::{Key, Report};
use super::options::{HostOptions, MESSAGE_OVERHEAD_BYTES};
use crate::text::{grouped, prefix};
use crate::tool::ToolDescription;
use crate::toolbox::Toolbox;

pub(super) fn request(message: attach_request::Message) -> AttachRequest {
    AttachRequest { message: Some(message) }
}

pub(super) fn hello(
    options: &HostOptions,
    instance: &str,
    toolbox: &Toolbox,
    held: Vec<HeldCall>,
) -> AttachRequest {
    let offer = |tool: &ToolDescription| ToolOffer {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
        output_schema: tool.output_schema.clone().unwrap_or_default(),
        effect: tool.effect.as_str().to_owned(),
        timeout_ms: tool.timeout.as_millis() as u64,
        concurrency: tool.concurrency,
    };
    request(attach_request::Message::Hello(Hello {
        name: options.name.clone(),
        instance: instance.to_owned(),
        tools: toolbox.descriptions().map(offer).collect(),
        concurrency: options.concurrency,
        held,
    }))
}

pub(super) fn output(key: Key, fence: u64, text: String) -> AttachRequest {
    let Key { session_id, call_id, .. } = key;
    request(attach_request::Message::Output(OutputChunk { session_id, call_id, fence, text }))
}

/// An answer without a result.
pub(super) fn answer(key: Key, fence: u64, outcome: Outcome, reason: &str) -> CallReport {
    let Key { session_id, call_id, attempt } = key;
    CallReport {
        session_id,
        call_id,
        attempt,
        fence,
        outcome: outcome.into(),
        output: reason.to_owned(),
        ..CallReport::default()
    }
}

/// The report of an ended call, cut to what the server takes in one message. What is cut is said in
/// the output, so that nobody takes a part for the whole.
pub(super) fn report(key: Key, fence: u64, report: &Report, bytes_max: usize) -> CallReport {
    let Report { outcome, output, full_output, duration_ms } = report;
    let room = bytes_max.saturating_sub(MESSAGE_OVERHEAD_BYTES);
    let mut text = output.clone();
    if output.len() > room {
        let kept = prefix(output, room);
        let (all, kept_bytes) = (grouped(output.len() as u64), grouped(kept.len() as u64));
        text =
            format!("{kept}\n[cut: the output has {all} bytes; these are the first {kept_bytes}]");
    }
    let mut full = full_output.as_slice();
    let room = room.saturating_sub(text.len());
    if full.len() > room {
        let all = grouped(full.len() as u64);
        full = full.get(..room).unwrap_or_default();
        let kept = grouped(full.len() as u64);
        text = format!(
            "{text}\n[the whole output has {all} bytes, more than the server takes; its first {kept} \
             are kept]"
        );
    }
    CallReport {
        full_output: full.to_vec().into(),
        duration_ms: *duration_ms,
        ..answer(key, fence, *outcome, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(output: usize, full: usize) -> CallReport {
        let key = Key { session_id: "s".to_owned(), call_id: "1.1".to_owned(), attempt: 1 };
        let output = "ż".repeat(output / 2);
        let full_output = vec![0xff; full];
        let whole = Report { outcome: Outcome::Ok, output, full_output, duration_ms: 7 };
        report(key, 9, &whole, 1024 * 1024)
    }

    #[test]
    fn a_report_that_fits_is_sent_whole() {
        let report = sent(1000, 2000);
        assert_eq!((report.output.len(), report.full_output.len()), (1000, 2000));
        assert_eq!((report.fence, report.duration_ms), (9, 7));
    }

    #[test]
    fn a_report_that_is_too_large_says_what_is_cut() {
        let report = sent(1000, 2 * 1024 * 1024);
        assert!(report.full_output.len() > 1_000_000 && report.full_output.len() < 1024 * 1024);
        assert!(report.output.contains("more than the server takes"), "{}", report.output);
        let report = sent(3 * 1024 * 1024, 10);
        assert!(report.output.len() < 1024 * 1024 && report.output.contains("[cut:"));
    }
}
