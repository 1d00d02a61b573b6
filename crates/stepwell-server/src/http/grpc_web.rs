//! gRPC for web pages: a browser cannot speak gRPC itself, so what comes as gRPC-web is put into gRPC
//! and its answer back. All else passes untouched.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::Response;
use tonic_web::GrpcWebLayer;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// Lets web pages call the services behind `next`.
pub(crate) async fn translate(request: Request, next: Next) -> Response {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    if !kind.is_some_and(|it| it.starts_with("application/grpc-web")) {
        return next.run(request).await;
    }
    let inner = service_fn(move |request: axum::http::Request<tonic::body::Body>| {
        let next = next.clone();
        async move { Ok::<_, Infallible>(next.run(request.map(Body::new)).await) }
    });
    let Ok(response) = GrpcWebLayer::new().layer(inner).oneshot(request).await;
    response.map(Body::new)
}
