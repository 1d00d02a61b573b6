//! The load of a server out of the text of its `/metrics`.

/// The gauges that together are the requests of a server: what runs and what waits, of vLLM, `SGLang`
/// and llama.cpp.
const GAUGES: [&str; 6] = [
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
    "llamacpp:requests_processing",
    "llamacpp:requests_deferred",
];

/// Requests that run or wait, over all engines of the server; `None` when it does not say.
pub fn requests(metrics: &str) -> Option<u64> {
    let mut found = None;
    for line in metrics.lines() {
        if let Some(value) = GAUGES.iter().find_map(|gauge| value_of(line, gauge)) {
            found = Some(found.unwrap_or(0_u64).saturating_add(value));
        }
    }
    found
}

/// The value of a line `NAME{labels} VALUE [TIME]`. Label values may hold spaces and braces.
fn value_of(line: &str, name: &str) -> Option<u64> {
    let rest = line.strip_prefix(name)?;
    let value = match rest.strip_prefix('{') {
        Some(labels) => labels.rsplit_once('}')?.1,
        None if rest.starts_with([' ', '\t']) => rest,
        None => return None,
    };
    let value: f64 = value.split_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_and_waiting_are_added_up() {
        let metrics = "\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"a } b\"} 3.0
vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 1.0 1700000000
vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 2.0
vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 7.0
vllm:num_preemptions_total{engine=\"0\"} 9.0
";
        assert_eq!(requests(metrics), Some(6));
        assert_eq!(requests("vllm:num_requests_running 4"), Some(4));
        assert_eq!(
            requests("llamacpp:requests_processing 2\nllamacpp:requests_deferred 1"),
            Some(3)
        );
        assert_eq!(
            requests("sglang:num_running_reqs{m=\"a\"} 2.0\nsglang:num_queue_reqs 5"),
            Some(7)
        );
    }

    #[test]
    fn a_server_that_says_nothing_of_use_has_no_load() {
        for metrics in ["", "up 1", "vllm:num_requests_running{a=\"b\"} NaN", "<html>"] {
            assert_eq!(requests(metrics), None, "{metrics}");
        }
    }
}
