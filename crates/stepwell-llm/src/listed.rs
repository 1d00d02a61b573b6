//! How many tokens a model takes, out of the list of models of its server.

use serde_json::Value;

/// Tokens that prompt and answer of `model` may have together, where its server tells: as
/// `max_model_len` (vLLM and its kin) or as `meta.n_ctx` (llama.cpp: the share of one slot).
pub(crate) fn context_of(models: &Value, model: &str) -> Option<u64> {
    let listed = models.get("data")?.as_array()?;
    let own = listed.iter().find(|it| it.get("id").is_some_and(|id| id == model))?;
    let paths = ["/max_model_len", "/meta/n_ctx"];
    // A zero is a server that does not know.
    paths.into_iter().find_map(|path| own.pointer(path)?.as_u64().filter(|it| *it > 0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_server_has_its_own_name_for_it() {
        let vllm = json!({"id": "m", "max_model_len": 16_384, "root": "m"});
        let llamacpp = json!({"id": "m", "meta": {"n_ctx": 4_096, "n_ctx_train": 32_768}});
        let silent = json!({"id": "m", "object": "model"});
        for (own, tokens) in [(vllm, Some(16_384)), (llamacpp, Some(4_096)), (silent, None)] {
            let models = json!({"data": [{"id": "other", "max_model_len": 5}, own]});
            assert_eq!(context_of(&models, "m"), tokens, "{models}");
        }
    }

    #[test]
    fn what_is_no_list_tells_nothing() {
        for models in [json!(null), json!({}), json!({"data": 3}), json!({"data": [3]})] {
            assert_eq!(context_of(&models, "m"), None, "{models}");
        }
        let unknown = json!({"data": [{"id": "m", "max_model_len": 0}]});
        assert_eq!(context_of(&unknown, "m"), None);
        let text = json!({"data": [{"id": "m", "max_model_len": "16384"}]});
        assert_eq!(context_of(&text, "m"), None);
    }
}
