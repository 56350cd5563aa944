//! Requests to live sessions.
//!
//! ```text
//!  RequestHandle ──▶ Course ──▶ drive: the request (again after silence) ─▶ exchange submit
//!       ▲              │               input, credit, signals, cancel     ─▶ exchange calls
//!       └── output ◀───┴─◀── dispatch ◀── replies queue: opened, output, credit, done
//! ```

mod course;
mod drive;
mod handle;
mod input;
mod output;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thermae_schemas::{Body, EventBody, JobId, Request, names};

pub use self::handle::RequestHandle;

use self::course::Course;
use crate::client::Shared;
use crate::{Error, publish};

/// All requests under way, by id.
#[derive(Default)]
pub(crate) struct Requests(Mutex<Table>);

#[derive(Default)]
struct Table {
    requests: HashMap<JobId, Arc<Course>>,
    closed: Option<Error>,
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, course: &Arc<Course>) -> Result<(), Error> {
        let mut table = self.lock();
        if let Some(error) = &table.closed {
            return Err(error.clone());
        }
        if table.requests.contains_key(&course.id) {
            return Err(Error::AlreadyRequested(course.id.clone()));
        }
        table.requests.insert(course.id.clone(), course.clone());
        Ok(())
    }

    fn remove(&self, id: &JobId) {
        self.lock().requests.remove(id);
    }

    /// Hands an event to its request. Returns `false` if nobody waits for the request.
    pub(crate) fn event(&self, id: &JobId, event: EventBody) -> bool {
        let course = self.lock().requests.get(id).cloned();
        course.map(|course| course.event(event)).is_some()
    }

    /// Sends all requests again, because events are lost.
    pub(crate) fn ask_again(&self) {
        self.lock().requests.values().for_each(|course| course.ask_again());
    }

    /// Fails every request under way, and every request that is made later.
    pub(crate) fn close(&self, error: &Error) {
        let mut table = self.lock();
        table.closed.get_or_insert_with(|| error.clone());
        table.requests.values().for_each(|course| course.end(Err(error.clone())));
    }
}

/// Sends a request, and drives it to its end.
pub(crate) fn start(shared: &Arc<Shared>, request: Request) -> RequestHandle {
    let course = Arc::new(Course::new(&request));
    let started = request.to_json().map_err(Error::from).and_then(|body| {
        shared.requests.add(&course)?;
        Ok(body)
    });
    match started {
        Ok(body) => {
            let key = names::request_key(&shared.tenant);
            let mut message = publish::message(shared, key, &request.id, body.into());
            message.persistent = false;
            shared.tasks.spawn(drive::run(shared.clone(), course.clone(), message));
        }
        Err(error) => course.end(Err(error)),
    }
    RequestHandle::new(course)
}
