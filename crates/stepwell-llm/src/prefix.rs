//! What is recorded of an answer's token ids, and the words of a few of them.

use serde::Deserialize;
use serde_json::json;
use stepwell_core::Text;
use stepwell_core::agent::History;
use stepwell_core::event::{FinishReason, ReplyTokens};
use stepwell_ports::{ModelAnswer, ModelRequest};
use tokio::time::{Duration, Instant};

use crate::deadlines::Limit;
use crate::endpoints::beside;
use crate::exchange::Server;
use crate::token_ids::TokenIds;

/// How long a server may take to turn ids into text. Without the text a reply is as good.
const DETOKENIZE_MS_MAX: u64 = 5_000;

/// Tokens that are shown from a break on: enough to see what is otherwise.
const SHOWN_TOKENS: usize = 6;

/// What is recorded of the ids of `answer`; nothing when the server did not tell all of them.
pub(crate) async fn recorded(
    server: &Server<'_>,
    request: &ModelRequest,
    answer: &ModelAnswer,
    ids: &TokenIds,
) -> Option<ReplyTokens> {
    if ids.prompt.is_empty() || !is_whole(ids, answer.usage.completion_tokens) {
        return None;
    }
    let mut tokens = request.tokens.reply(&ids.prompt, &ids.generated);
    if let Some(broke) = &mut tokens.broke {
        let at = usize::try_from(broke.at).unwrap_or(usize::MAX);
        let words = |ids| text_of(server, &request.model.name, window(ids, at));
        broke.expected_text = words(request.tokens.ids()).await.unwrap_or_default();
        broke.found_text = words(&ids.prompt).await.unwrap_or_default();
    }
    tokens.text = match request.model.history {
        History::Calls | History::Tokens => None,
        History::Text => {
            let said = without_end(ids, answer.finish_reason);
            text_of(server, &request.model.name, said)
                .await
                .filter(|it| is_exact(it))
                .map(Text::from)
        }
    };
    Some(tokens)
}

/// Servers leave the ids of hidden reasoning out.
fn is_whole(ids: &TokenIds, completion_tokens: u64) -> bool {
    let told = ids.generated.len() as u64;
    told > 0 && (completion_tokens == 0 || completion_tokens == told)
}

fn window(ids: &[u32], at: usize) -> &[u32] {
    let rest = ids.get(at..).unwrap_or_default();
    rest.get(..SHOWN_TOKENS).unwrap_or(rest)
}

/// The reply without the token that ends the turn, which the template adds by itself.
fn without_end(ids: &TokenIds, finish_reason: FinishReason) -> &[u32] {
    let is_ended = match finish_reason {
        FinishReason::Stop | FinishReason::ToolCalls => !ids.ends_in_text,
        FinishReason::Length | FinishReason::ContentFilter => false,
    };
    match ids.generated.split_last() {
        Some((_, said)) if is_ended => said,
        Some(_) | None => &ids.generated,
    }
}

/// Tokens that are part of a character have no text.
fn is_exact(text: &str) -> bool {
    !text.contains(char::REPLACEMENT_CHARACTER)
}

#[derive(Deserialize)]
struct Detokenized {
    prompt: String,
}

/// The text of some tokens; `None` when the server does not say.
pub(crate) async fn text_of(server: &Server<'_>, model: &str, ids: &[u32]) -> Option<String> {
    if ids.is_empty() {
        return Some(String::new());
    }
    let url = beside(&server.target.url, "detokenize");
    let json = json!({"model": model, "tokens": ids}).to_string();
    let deadline = Instant::now() + Duration::from_millis(DETOKENIZE_MS_MAX);
    let until = (deadline, Limit::Total(DETOKENIZE_MS_MAX));
    let answer = server.post_json(url, json, until).await.ok()?;
    serde_json::from_slice::<Detokenized>(&answer).ok().map(|it| it.prompt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(generated: &[u32], ends_in_text: bool) -> TokenIds {
        TokenIds { prompt: vec![1], generated: generated.to_vec(), ends_in_text }
    }

    #[test]
    fn ids_count_only_when_all_of_them_are_there() {
        for (told, counted, is_it) in
            [(&[1, 2][..], 2, true), (&[1, 2], 0, true), (&[1, 2], 3, false), (&[], 0, false)]
        {
            assert_eq!(is_whole(&ids(told, false), counted), is_it, "{told:?} {counted}");
        }
    }

    #[test]
    fn the_end_of_the_turn_is_no_text_of_the_reply() {
        for (finish_reason, ends_in_text, said) in [
            (FinishReason::Stop, false, &[1, 2][..]),
            (FinishReason::ToolCalls, false, &[1, 2]),
            (FinishReason::Stop, true, &[1, 2, 3]),
            (FinishReason::Length, false, &[1, 2, 3]),
        ] {
            assert_eq!(without_end(&ids(&[1, 2, 3], ends_in_text), finish_reason), said);
        }
        assert_eq!(without_end(&ids(&[], false), FinishReason::Stop), [0_u32; 0]);
    }

    #[test]
    fn a_window_ends_with_the_ids() {
        let ids: Vec<u32> = (0..10).collect();
        assert_eq!(window(&ids, 2), [2, 3, 4, 5, 6, 7]);
        assert_eq!(window(&ids, 8), [8, 9]);
        assert_eq!(window(&ids, 11), [0_u32; 0]);
    }
}
