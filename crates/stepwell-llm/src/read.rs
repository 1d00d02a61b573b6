//! Reads a body to its end, within a bound.

use reqwest::Response;

/// The whole body; `None` when it has more than `bytes_max`.
pub(crate) async fn read_whole(
    response: &mut Response,
    bytes_max: usize,
) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(block) = response.chunk().await? {
        body.extend_from_slice(&block);
        if body.len() > bytes_max {
            return Ok(None);
        }
    }
    Ok(Some(body))
}
