//! The web viewer: the files that the build made of `web-ui/`, and the addresses of its pages.
//!
//! Invariant: a page of this server loads nothing from elsewhere and runs no script that is not a file
//! of the viewer, whatever text a model or a tool has written.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

include!(concat!(env!("OUT_DIR"), "/web_files.rs"));

/// The page of every view; its script looks at the address.
const PAGE: &str = "/index.html";

/// Addresses of views. `web-ui/src/app.tsx` has the same.
const VIEWS: &[&str] =
    &["/", "/s/{moment}", "/approvals", "/agents", "/workers", "/new", "/compare/{a}/{b}"];

/// What the name of a file ends with that is another one, compressed by gzip.
const PACKED: &str = ".gz";

/// Files below have a hash of their content in their name.
const HASHED: &str = "/assets/";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
                      data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Headers of every file.
const GUARDS: [(HeaderName, HeaderValue); 3] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Tags of the files, in their order.
static TAGS: LazyLock<Vec<Option<HeaderValue>>> = LazyLock::new(|| {
    let tag = |content: &[u8]| format!("\"{}\"", blake3::hash(content).to_hex());
    FILES.iter().map(|(_, content)| HeaderValue::from_str(&tag(content)).ok()).collect()
});

/// The views.
pub(super) fn views<S: Clone + Send + Sync + 'static>() -> Router<S> {
    VIEWS.iter().fold(Router::new(), |router, view| router.route(view, get(page)))
}

pub(super) async fn page(headers: HeaderMap) -> Response {
    // The build fails without it.
    file(PAGE, &headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
}

/// First parts of addresses that are no page and never will be: programs ask there.
const NO_PAGES: [&str; 3] = ["v1", "assets", "view"];

/// For an address where nothing is: the page, which says so, if a person asks for one.
pub(super) async fn nothing_here(path: &str, headers: &HeaderMap) -> Option<Response> {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    // Files and gRPC services have a dot in their name.
    if !takes_page(headers) || first.contains('.') || NO_PAGES.contains(&first) {
        return None;
    }
    let mut whole = headers.clone();
    // That the browser has the page already is no answer that could say so.
    whole.remove(IF_NONE_MATCH);
    let mut response = page(whole).await;
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    Some(response)
}

/// Whether it is a browser that goes to an address: programs take anything, or name what they take.
pub(crate) fn takes_page(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok());
    texts.flat_map(|it| it.split(',')).any(|it| {
        it.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
    })
}

/// The file of the viewer at `path`, or that the browser's own copy still holds.
pub(super) fn file(path: &str, headers: &HeaderMap) -> Option<Response> {
    let plain = place(path)?;
    // The build has made it beside each large text.
    let packed = place(&format!("{path}{PACKED}")).filter(|_| takes_gzip(headers));
    let at = packed.unwrap_or(plain);
    let (_, content) = FILES.get(at)?;
    let tag = TAGS.get(at)?.clone()?;
    let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|it| it == tag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let kind = HeaderValue::from_static(content_type(path));
        ([(CONTENT_TYPE, kind)], Bytes::from_static(content)).into_response()
    };
    let lasts = if path.starts_with(HASHED) {
        "public, max-age=31536000, immutable"
    } else {
        // Asked for again each time: a new release is seen at once.
        "no-cache"
    };
    let more = [(ETAG, tag), (CACHE_CONTROL, HeaderValue::from_static(lasts))];
    response.headers_mut().extend(GUARDS.into_iter().chain(more));
    response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    if packed.is_some() && !is_known {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}

fn place(path: &str) -> Option<usize> {
    FILES.binary_search_by_key(&path, |(it, _)| it).ok()
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|it| it.to_str().ok());
    texts.flat_map(|it| it.split(',')).any(|it| {
        let (name, weight) = it.split_once(';').unwrap_or((it, ""));
        let is_no = weight.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !is_no
    })
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

    #[tokio::test]
    async fn a_person_gets_the_page_where_nothing_is_and_a_program_its_own_answer() {
        for (path, accept, is_page) in [
            ("/nope", BROWSER, true),
            ("/s/", BROWSER, true),
            ("/s/a/b/c", BROWSER, true),
            ("/", "TEXT/HTML;q=0.5", true),
            ("/nope", "*/*", false),
            ("/nope", "application/json", false),
            ("/v1/nope", BROWSER, false),
            ("/assets/nope.js", BROWSER, false),
            ("/favicon.ico", BROWSER, false),
            ("/stepwell.v1.SessionService/Nope", BROWSER, false),
            ("/view/x", BROWSER, false),
        ] {
            let headers = HeaderMap::from_iter([
                (ACCEPT, HeaderValue::from_static(accept)),
                (IF_NONE_MATCH, tag_of_page()),
            ]);
            let response = nothing_here(path, &headers).await;
            let status = response.as_ref().map(Response::status);
            assert_eq!(status, is_page.then_some(StatusCode::NOT_FOUND), "{path} {accept}");
            if let Some(response) = response {
                assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
                assert!(response.headers().contains_key(CONTENT_SECURITY_POLICY));
            }
        }
    }

    fn tag_of_page() -> HeaderValue {
        let at = place(PAGE).unwrap();
        TAGS[at].clone().unwrap()
    }
}
