//! One request, as routes see it: its parameters, its headers and its body.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::BodyDataStream;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::{HeaderMap, HeaderName, header};
use bytes::Bytes;
use futures::StreamExt;
use thermae_schemas::json::{MOST_IN_A_JOB, measure};
use thermae_service::units::Millis;
use tokio::time::Instant;

use crate::budget::Held;
use crate::hold::Holder;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::server::Shared;
use crate::service::job::PER_VALUE;
use crate::tenants::Lease;

/// A request.
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    pub(crate) caller: Caller,
    /// The service of the caller's tenant.
    pub(crate) service: Arc<Lease>,
    pub(crate) holder: Holder,
    pub(crate) headers: HeaderMap,
    path: Vec<(String, String)>,
    query: BTreeMap<String, String>,
    /// Never locked: it makes the request one that several threads may look at.
    body: Mutex<BodyDataStream>,
    patience: Patience,
}

impl Call {
    /// Reads the parameters of a caller's request. The query may have the names `known` only.
    pub(crate) async fn read(
        shared: Arc<Shared>,
        caller: Caller,
        service: Arc<Lease>,
        request: Request,
        known: &[&str],
    ) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let bad = |detail: String| Problem::new("bad_parameter", detail);
        let path = match RawPathParams::from_request_parts(&mut parts, &()).await {
            Ok(path) => path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            Err(_) => return Err(bad("the path is not percent-encoded UTF-8".to_owned())),
        };
        let mut query = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let have = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
                return Err(bad(format!("the query has the unknown parameter {name:?} ({have})")));
            }
            if query.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(bad(format!("the query has the parameter {name:?} twice")));
            }
        }
        let patience = Patience::new(shared.options.body_grace, shared.options.body_rate);
        let (headers, body) = (parts.headers, Mutex::new(body.into_data_stream()));
        let holder = Holder::new(shared.clone(), Some(service.clone()));
        Ok(Self { shared, caller, service, holder, headers, path, query, body, patience })
    }

    /// A parameter of the path, without percent-encoding.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// A parameter of the path, as a name.
    pub(crate) fn name<T: TryFrom<String>>(&self, name: &str) -> Result<T, Problem>
    where
        T::Error: std::fmt::Display,
    {
        T::try_from(self.part(name).to_owned())
            .map_err(|error| Problem::new("bad_parameter", format!("the path's {name}: {error}")))
    }

    /// A parameter of the query, if it is there.
    pub(crate) fn query<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Problem>
    where
        T::Err: std::fmt::Display,
    {
        let Some(text) = self.query.get(name) else { return Ok(None) };
        let bad = |why: &dyn std::fmt::Display| Problem::new("bad_parameter", format!("the query's {name}: {why}"));
        // Rust reads numbers with a plus sign, too. No parameter has a value that begins with one.
        if text.starts_with('+') {
            return Err(bad(&"it begins with a plus sign"));
        }
        text.parse().map(Some).map_err(|error| bad(&error))
    }

    /// The parameter `wait`.
    pub(crate) fn wait(&self) -> Result<Option<Duration>, Problem> {
        let Some(wait) = self.query::<Millis>("wait")? else { return Ok(None) };
        if !self.query.get("wait").is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            return Err(Problem::new("bad_parameter", "wait: a whole number with a unit, such as 30s"));
        }
        let (wait, most) = (wait.duration(), self.shared.options.longest_wait);
        if wait > most {
            return Err(Problem::new("bad_parameter", format!("wait: at most {} s", most.as_secs())));
        }
        Ok(Some(wait))
    }

    /// A header that may be there once.
    pub(crate) fn header(&self, name: HeaderName) -> Result<Option<&str>, Problem> {
        single(&self.headers, &name)
    }

    /// Whether the client asks for a stream of events.
    pub(crate) fn wants_events(&self) -> bool {
        let accepts = self.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        accepts.flat_map(|value| value.split(',')).any(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
        })
    }

    /// The whole body, which must be JSON, and its hold on the gateway's memory.
    pub(crate) async fn json(&mut self) -> Result<(Bytes, Held), Problem> {
        let kind = single(&self.headers, &header::CONTENT_TYPE)?.unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            let found = if kind.is_empty() { "no media type".to_owned() } else { format!("the media type {kind:?}") };
            return Err(Problem::new("unsupported_media_type", format!("the body has {found}, not application/json")));
        }
        let most = self.shared.options.body_bytes;
        let too_large = || Problem::new("body_too_large", format!("the body has more than {most} bytes"));
        let said = single(&self.headers, &header::CONTENT_LENGTH)?.and_then(|length| length.parse::<usize>().ok());
        if said.is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let holder = self.holder.clone();
        let (mut body, mut held) = (Vec::new(), holder.hold(0)?);
        while let Some(piece) = self.piece().await? {
            if body.len() + piece.len() > most {
                return Err(too_large());
            }
            // What was said is what comes, as a rule. A caller who lies takes no memory by that.
            held.add(&mut body, &piece, said.unwrap_or(most), |held, more| holder.grow(held, more))?;
        }
        Ok((body.into(), held))
    }

    /// As [`Call::json`], for a value whose readers take no more than a job may have. What is made of it is held, too.
    pub(crate) async fn value(&mut self) -> Result<(Bytes, Held), Problem> {
        let (text, mut held) = self.json().await?;
        // What can't be measured is refused by its reader, which says why.
        let values = measure(&text, MOST_IN_A_JOB).map_or(0, |measure| measure.values);
        self.holder.grow(&mut held, text.len() + values * PER_VALUE)?;
        Ok((text, held))
    }

    /// The next piece of the body; `None` after the last one.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Problem> {
        let asked = Instant::now();
        let late = || Problem::new("slow_body", "the body came too slowly");
        let body = self.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        let piece = tokio::time::timeout(self.patience.left(), body.next()).await.map_err(|_| late())?;
        let Some(piece) = piece else { return Ok(None) };
        let piece = piece.map_err(|error| Problem::new("bad_body", format!("the body can't be read: {error}")))?;
        self.patience.spend(asked.elapsed(), piece.len());
        Ok(Some(piece))
    }
}

/// A header that may be there once.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::new("bad_header", format!("the header {name} is there twice")));
    }
    let text = value.to_str().map_err(|_| Problem::new("bad_header", format!("the header {name} is not ASCII")))?;
    Ok(Some(text))
}

/// How long a body may still make the gateway wait. Only the time spent on the client counts.
struct Patience {
    left: Duration,
    rate: usize,
}

impl Patience {
    fn new(grace: Duration, rate: usize) -> Self {
        Self { left: grace, rate: rate.max(1) }
    }

    fn left(&self) -> Duration {
        self.left
    }

    fn spend(&mut self, waited: Duration, bytes: usize) {
        let earned = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        self.left = (self.left + earned).saturating_sub(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_unless_bytes_come() {
        let mut patience = Patience::new(Duration::from_secs(2), 1000);
        patience.spend(Duration::from_millis(1500), 1000);
        assert_eq!(patience.left(), Duration::from_millis(1500));
        patience.spend(Duration::from_millis(1400), 1);
        assert_eq!(patience.left(), Duration::from_millis(101));
        patience.spend(Duration::from_secs(1), 1);
        assert_eq!(patience.left(), Duration::ZERO);
    }

    #[test]
    fn a_header_is_there_once_or_not() {
        let mut headers = HeaderMap::new();
        assert_eq!(single(&headers, &header::RANGE).unwrap(), None);
        headers.append(header::RANGE, "bytes=0-".parse().unwrap());
        assert_eq!(single(&headers, &header::RANGE).unwrap(), Some("bytes=0-"));
        headers.append(header::RANGE, "bytes=0-".parse().unwrap());
        assert_eq!(single(&headers, &header::RANGE).unwrap_err().code, "bad_header");
    }
}
