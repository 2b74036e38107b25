//! The handler under its reservation, and what becomes of its response.

use super::{
    Keep, keep,
    service::{EXPIRES, KEPT, http_date},
    settings::Settings,
    stored::Stored,
};
use crate::{
    Body,
    body::{self, Read},
    problem::{Refusal, of_idempotency},
};
use futures_util::FutureExt;
use hapax_core::idempotency::{Kind, Receipt};
use hapax_engine::protocol::{Kept, Reservation};
use http::{HeaderValue, Request, Response};
use http_body::Body as HttpBody;
use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
};
use tower_service::Service;

/// Codec name of a receipt that says why an outcome is unknown: the code, as text.
const UNKNOWN: &str = "hapax.unknown/1";

/// A response, and what it says of its request.
enum Ended<B: HttpBody> {
    Kept(Receipt, Response<Body<B>>),
    Freed(Response<Body<B>>),
    Unknown(Response<Body<B>>),
}

/// Runs the handler under its reservation. What comes of it is stored before anybody is answered.
pub(super) async fn carry_out<S, ReqBody, ResBody>(
    settings: Arc<Settings>,
    reservation: Reservation,
    mut request: Request<Body<ReqBody>>,
    mut inner: S,
) -> Result<Response<Body<ResBody>>, S::Error>
where
    S: Service<Request<Body<ReqBody>>, Response = Response<ResBody>>,
    ReqBody: HttpBody,
    ResBody: HttpBody,
{
    let mut reservation = match reservation.ready().await {
        Ok(reservation) => reservation,
        Err(error) => return Ok(settings.refuse(of_idempotency(&error)).map(whole)),
    };
    reservation.on_abort(unknown("idempotency.aborted"));
    request.extensions_mut().insert(reservation.lease());
    let began = reservation.began();
    let handling = AssertUnwindSafe(async {
        began.store(true, Ordering::Release);
        let response = inner.call(request).await?;
        Ok(judge(&settings, response).await)
    });
    let (outcome, answer) = match handling.catch_unwind().await {
        Ok(Ok(Ended::Kept(receipt, mut response))) => {
            let until = settings.until(reservation.terms());
            let _: Kept = reservation.complete(Kind::Done, receipt).await;
            response.headers_mut().insert(EXPIRES, http_date(until));
            ("done", Ok(response))
        }
        Ok(Ok(Ended::Freed(response))) => {
            reservation.release().await;
            ("failed", Ok(response))
        }
        Ok(Ok(Ended::Unknown(response))) => {
            keep_unknown(reservation, "idempotency.unknown").await;
            ("unknown", Ok(response))
        }
        Ok(Err(error)) => {
            keep_unknown(reservation, "idempotency.unknown").await;
            ("unknown", Err(error))
        }
        Err(_panic) => {
            keep_unknown(reservation, "idempotency.aborted").await;
            ("unknown", Ok(settings.refuse(Refusal::OutcomeUnknown).map(whole)))
        }
    };
    metrics::counter!("hapax_effects_total", "outcome" => outcome).increment(1);
    answer
}

/// Decides on a response, and reads it where it is to be kept.
async fn judge<B: HttpBody>(settings: &Settings, response: Response<B>) -> Ended<B> {
    let (parts, body) = response.into_parts();
    let said = parts.extensions.get::<Keep>().copied();
    let passes = match said.unwrap_or_else(|| (settings.keep)(&parts)) {
        Keep::Response => keep::is_endless(&parts.headers),
        Keep::Done => true,
        Keep::Nothing => return Ended::Freed(Response::from_parts(parts, Body::passing(body))),
        Keep::Unknown => return Ended::Unknown(Response::from_parts(parts, Body::passing(body))),
    };
    let read = if passes {
        Read::TooLarge(Body::passing(body))
    } else {
        body::read(body, settings.max_response).await
    };
    let mut stored = Stored::without_body(parts.status);
    match read {
        Read::Whole { data, trailers } => {
            stored.headers = keep::fields(&parts.headers, settings.cookies, &settings.without);
            (stored.body, stored.trailers) = (Some(data.clone()), trailers.clone());
            Ended::Kept(stored.receipt(), Response::from_parts(parts, Body::whole(data, trailers)))
        }
        // Carried out it was: its status says so.
        Read::TooLarge(body) | Read::Failed(body) => {
            let mut response = Response::from_parts(parts, body);
            response.headers_mut().insert(KEPT, HeaderValue::from_static("false"));
            Ended::Kept(stored.receipt(), response)
        }
    }
}

async fn keep_unknown(reservation: Reservation, code: &'static str) {
    tracing::warn!(key = ?reservation.name(), code, "an outcome is unknown: the key is kept");
    let _: Kept = reservation.complete(Kind::Unknown, unknown(code)).await;
}

fn unknown(code: &'static str) -> Receipt {
    Receipt::new(UNKNOWN, code.as_bytes())
}

pub(super) fn whole<B: HttpBody>(data: bytes::Bytes) -> Body<B> {
    Body::whole(data, None)
}
