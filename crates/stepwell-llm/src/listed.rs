//! The list of models of a server: their names, and how many tokens each takes.

use std::env;

use reqwest::header::AUTHORIZATION;
use serde_json::Value;
use stepwell_core::event::ModelErrorKind;
use stepwell_ports::ModelFailure;
use tokio::time::{Duration, timeout};

use crate::client::{JSON_BYTES_MAX, read_refusal};
use crate::connect::Clients;
use crate::read::read_whole;
use crate::target::Target;

/// How long a server may take to list its models.
const LIST_MS_MAX: u64 = 10_000;

/// The names of the models of the server at `base_url`, asked with the key that `key_env` names.
///
/// # Errors
/// Whatever else comes of it, with the address that was asked and what to do.
pub async fn models(base_url: &str, key_env: Option<&str>) -> Result<Vec<String>, ModelFailure> {
    let target = Target::new(base_url, key_env, |name| env::var(name).ok())?.in_api("models");
    let listed = timeout(Duration::from_millis(LIST_MS_MAX), list(&target)).await;
    let listed = listed.map_err(|_| {
        let message = format!("no answer within {} s", LIST_MS_MAX / 1_000);
        target.failure(ModelErrorKind::Timeout, message)
    })??;
    names_of(&listed).ok_or_else(|| no_list(&target))
}

async fn list(target: &Target) -> Result<Value, ModelFailure> {
    let unreachable = |error| target.unreachable(&error, LIST_MS_MAX);
    let client = Clients::default().get(&target.url, LIST_MS_MAX).map_err(unreachable)?;
    let mut request = client.get(target.url.clone());
    if let Some(authorization) = target.authorization()? {
        request = request.header(AUTHORIZATION, authorization);
    }
    let mut response = request.send().await.map_err(unreachable)?;
    if !response.status().is_success() {
        return Err(target.refused(read_refusal(response).await));
    }
    let body = read_whole(&mut response, JSON_BYTES_MAX).await.map_err(unreachable)?;
    serde_json::from_slice(&body.unwrap_or_default()).map_err(|_| no_list(target))
}

fn no_list(target: &Target) -> ModelFailure {
    let message = "the answer is no list of models (does base_url end as it should, often in /v1?)";
    target.failure(ModelErrorKind::BadResponse, message.to_owned())
}

fn names_of(models: &Value) -> Option<Vec<String>> {
    let listed = models.get("data")?.as_array()?;
    listed.iter().map(|it| Some(it.get("id")?.as_str()?.to_owned())).collect()
}

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
    fn names_are_those_of_a_list() {
        let models = json!({"data": [{"id": "a"}, {"id": "b", "owned_by": "us"}]});
        assert_eq!(names_of(&models), Some(vec!["a".to_owned(), "b".to_owned()]));
        for models in [json!({"data": [{"name": "a"}]}), json!({"models": []}), json!([])] {
            assert_eq!(names_of(&models), None, "{models}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named_with_its_address() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        drop(listener);
        let failure = models(&url, None).await.unwrap_err();
        assert_eq!(failure.endpoint, format!("{url}/models"));
        assert!(failure.message.contains("connection refused"), "{failure:?}");
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
