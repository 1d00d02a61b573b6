//! A refused HTTP request: the same code and words as over gRPC, as JSON.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tonic::{Code, Status};

/// A status that goes out over HTTP.
pub(super) struct HttpError(pub(super) Status);

impl From<Status> for HttpError {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    error: ErrorBody<'a>,
}

/// Code and words of an error.
#[derive(Serialize)]
pub(super) struct ErrorBody<'a> {
    code: &'static str,
    message: &'a str,
}

impl<'a> ErrorBody<'a> {
    /// The error of that status.
    pub(super) fn of(status: &'a Status) -> Self {
        Self { code: name(status.code()), message: status.message() }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let body = Body { error: ErrorBody::of(&self.0) };
        let text = serde_json::to_string(&body).unwrap_or_default() + "\n";
        let kind = [(header::CONTENT_TYPE, "application/json")];
        (http_code(self.0.code()), kind, text).into_response()
    }
}

/// The code's name, as gRPC writes it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

fn http_code(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}
