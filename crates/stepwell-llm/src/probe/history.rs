//! Whether the history of a session keeps the tokens that the model generated, in each form in which it
//! can be sent.

use serde_json::{Value, json};
use stepwell_core::tokens::kept;

use super::tries::{self, WORD};
use super::{Capability, Prober, Refused, Support};
use crate::endpoints::{beside, in_api};

/// The same arguments, written in two ways.
const ARGUMENTS: [&str; 2] = [r#"{"word":"zebra-41"}"#, r#"{ "word" :  "zebra-41" }"#];

/// A request and its reply as tokens, and the reply as a message.
struct Called {
    ids: Vec<u64>,
    /// How many of them are the prompt.
    prompt: usize,
    message: Value,
}

impl Prober<'_> {
    /// What to set `history` of an agent to, found out by trying. Nothing, where the server tells no
    /// token ids.
    pub(super) async fn history(&self) -> Vec<Capability> {
        let mut found = Vec::new();
        let [close, wide] = ARGUMENTS.map(|written| self.rendered(made_up(written)));
        match (close.await, wide.await) {
            (Ok(Some(close)), Ok(Some(wide))) => found.push(as_written(&close, &wide)),
            _ => return found,
        }
        match self.called().await {
            Ok(Some(called)) => found.extend(self.kept_by(&called).await),
            Ok(None) => found.push(unknown("the model made no call to judge by".to_owned())),
            Err(Refused::Said { words, .. } | Refused::Lost(words)) => found.push(unknown(words)),
        }
        found.push(self.tokens().await);
        found
    }

    async fn kept_by(&self, called: &Called) -> Vec<Capability> {
        let mut found = Vec::new();
        if let Ok(Some(ids)) = self.rendered(called.message.clone()).await {
            found.push(judged("exact history as calls", called, &ids));
        }
        if let Some(said) = self.text(called).await
            && let Ok(Some(ids)) =
                self.rendered(json!({"role": "assistant", "content": said})).await
        {
            found.push(judged("exact history as text", called, &ids));
        }
        found
    }

    /// A call that the model makes.
    async fn called(&self) -> Result<Option<Called>, Refused> {
        let members = json!({
            "messages": task(), "tools": tries::tool(false), "tool_choice": "required",
            "return_token_ids": true, "max_tokens": 64,
        });
        let answer = self.post(self.target.url.clone(), &tries::body(self.model, &members)).await?;
        Ok(called(&answer))
    }

    /// The tokens of a history with that reply; `None` when the server does not tell them.
    async fn rendered(&self, reply: Value) -> Result<Option<Vec<u64>>, Refused> {
        let mut messages = task();
        if let Some(messages) = messages.as_array_mut() {
            let call_id = reply.pointer("/tool_calls/0/id").cloned().unwrap_or("c1".into());
            messages.push(reply);
            messages
                .push(json!({"role": "tool", "tool_call_id": call_id, "content": "An animal."}));
        }
        let members = json!({
            "messages": messages, "tools": tries::tool(false), "return_token_ids": true,
            "max_tokens": 1,
        });
        let answer = self.post(self.target.url.clone(), &tries::body(self.model, &members)).await?;
        Ok(ids(&answer, "/prompt_token_ids"))
    }

    /// What the model generated, as text.
    async fn text(&self, called: &Called) -> Option<String> {
        let (_, said) = called.ids.get(called.prompt..)?.split_last()?;
        let body = json!({"model": self.model, "tokens": said});
        let answer = self.post(beside(&self.target.url, "detokenize"), &body).await.ok()?;
        answer.get("prompt")?.as_str().map(str::to_owned)
    }

    /// Whether the server takes tokens, and makes answers of them.
    async fn tokens(&self) -> Capability {
        let body = tries::body(self.model, &json!({}));
        let url = in_api(&self.target.url, "chat/completions/render");
        let (support, detail) = match self.post(url, &body).await {
            Ok(answer) if ids(&answer, "/token_ids").is_some() => {
                (Support::Yes, "history = \"tokens\" continues exactly".to_owned())
            }
            Ok(_) | Err(Refused::Said { .. }) => {
                let why = "history = \"tokens\" does not work: vLLM needs --enable-scale-out";
                (Support::No, why.to_owned())
            }
            Err(Refused::Lost(words)) => (Support::Unknown, words),
        };
        Capability { name: "exact continuation", support, detail }
    }
}

fn task() -> Value {
    json!([{"role": "user", "content": format!("Look the word {WORD} up with lookup.")}])
}

/// A call that no model made.
fn made_up(arguments: &str) -> Value {
    let function = json!({"name": "lookup", "arguments": arguments});
    let call = json!({"id": "c1", "type": "function", "function": function});
    json!({"role": "assistant", "content": null, "tool_calls": [call]})
}

fn called(answer: &Value) -> Option<Called> {
    let prompt = ids(answer, "/prompt_token_ids")?;
    let generated = ids(answer, "/choices/0/token_ids")?;
    let message = answer.pointer("/choices/0/message")?;
    let calls = message.get("tool_calls").filter(|it| it.get(0).is_some())?;
    let content = message.get("content").filter(|it| it.as_str() != Some(""));
    let content = content.cloned().unwrap_or_default();
    let message = json!({"role": "assistant", "content": content, "tool_calls": calls});
    let length = prompt.len();
    Some(Called { ids: [prompt, generated].concat(), prompt: length, message })
}

fn ids(answer: &Value, pointer: &str) -> Option<Vec<u64>> {
    answer.pointer(pointer)?.as_array()?.iter().map(Value::as_u64).collect()
}

/// Whether the server renders two writings of the same arguments to the same tokens.
fn as_written(close: &[u64], wide: &[u64]) -> Capability {
    let (support, detail) = if close == wide {
        let why = "the server renders the arguments of calls anew, in its own writing";
        (Support::No, why)
    } else {
        (Support::Yes, "arguments of calls stay as they were written")
    };
    Capability { name: "arguments kept as written", support, detail: detail.to_owned() }
}

fn judged(name: &'static str, called: &Called, rendered: &[u64]) -> Capability {
    let (all, same) = (called.ids.len(), kept(&called.ids, rendered));
    let reply = all - called.prompt;
    let (support, detail) = if same == all {
        (Support::Yes, format!("all {reply} tokens of a reply with a call were kept"))
    } else if same >= called.prompt {
        let at = same - called.prompt + 1;
        (
            Support::No,
            format!("token {at} of the {reply} of a reply with a call became another one"),
        )
    } else {
        (Support::No, format!("token {} of the prompt became another one", same + 1))
    };
    Capability { name, support, detail }
}

fn unknown(detail: String) -> Capability {
    Capability { name: "exact history as calls", support: Support::Unknown, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Value {
        json!({
            "prompt_token_ids": [1, 2],
            "choices": [{"token_ids": [3, 4, 5], "message": {"content": "", "tool_calls": [{"id": "x"}]}}],
        })
    }

    #[test]
    fn a_form_is_judged_by_the_tokens_of_the_reply() {
        let called = called(&answer()).unwrap();
        assert_eq!(called.message["content"], Value::Null);
        for (rendered, support, words) in [
            (&[1, 2, 3, 4, 5, 6][..], Support::Yes, "all 3 tokens"),
            (&[1, 2, 3, 9, 5, 6], Support::No, "token 2 of the 3"),
            (&[1, 9], Support::No, "token 2 of the prompt"),
        ] {
            let found = judged("exact history as calls", &called, rendered);
            assert_eq!(found.support, support, "{rendered:?}");
            assert!(found.detail.contains(words), "{}", found.detail);
        }
    }

    #[test]
    fn an_answer_without_ids_or_calls_is_nothing_to_judge_by() {
        let mut without = answer();
        without["choices"][0]["message"]["tool_calls"] = json!([]);
        assert!(called(&without).is_none());
        let mut without = answer();
        without["prompt_token_ids"] = Value::Null;
        assert!(called(&without).is_none());
    }

    #[test]
    fn two_writings_that_become_the_same_tokens_are_rendered_anew() {
        assert_eq!(as_written(&[1, 2], &[1, 2]).support, Support::No);
        assert_eq!(as_written(&[1, 2], &[1, 3]).support, Support::Yes);
    }
}
