//! Handles the messages that a job's process sends on its channel, none of which is trusted, and sends it tool results.

use std::time::Instant;

use rustix::event::epoll::{self, EventFlags};
use serde_json::value::RawValue;

use super::active::{Cause, MAX_CALLS, MAX_RECEIVED};
use super::cell::Stage;
use super::{Engine, Token};
use crate::channel::{Got, Message};
use crate::frames::{Kind, ToolCall, ToolResult};

impl Engine {
    pub(super) fn on_channel(&mut self, id: u32, flags: EventFlags) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        if flags.contains(EventFlags::OUT) {
            let flushed = cell.channel.flush();
            if flushed.is_err() || !cell.channel.pending() {
                let _ = epoll::modify(&self.epoll, &cell.channel, Token::Channel(id).data(), EventFlags::IN);
            }
        }
        let got = cell.channel.fill(&mut self.chunk);
        let closed = !matches!(got, Ok(Got::Empty));
        while let Some(cell) = self.cells.get_mut(&id) {
            if let Some(run) = &cell.active
                && cell.channel.received > MAX_RECEIVED
            {
                let text = format!("more than {MAX_RECEIVED} bytes on the job's channel in run {}", run.number);
                return self.condemn(id, Cause::Broken(text));
            }
            match cell.channel.next() {
                Ok(Some(message)) => self.on_message(id, message),
                Ok(None) => break,
                Err(text) => return self.broken_channel(id, &text),
            }
        }
        if closed && let Some(cell) = self.cells.get_mut(&id) {
            let _ = epoll::delete(&self.epoll, &cell.channel);
            match cell.stage {
                // A fresh program may run on without its channel. The end of its process says how it went.
                Stage::Running if !cell.active.as_ref().is_some_and(|a| a.session) => {}
                Stage::Ending => {}
                // A session without a channel can't be given another run.
                Stage::Running | Stage::Idle => cell.kill(),
                _ => cell.kill(),
            }
        }
    }

    fn broken_channel(&mut self, id: u32, text: &str) {
        match self.cells.get(&id).map(|c| (c.active.is_some(), c.stage)) {
            Some((true, _)) => self.condemn(id, Cause::Broken(text.to_owned())),
            Some((false, Stage::Idle)) => {
                if let Some(cell) = self.cells.get(&id) {
                    cell.kill();
                }
            }
            Some(_) => self.cell_failed(id, text),
            None => {}
        }
    }

    fn on_message(&mut self, id: u32, message: Message) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        match (message.op.as_str(), &mut cell.active) {
            ("ready", None) if !cell.joined => {
                cell.joined = true;
                self.settled(id);
            }
            ("failed", None) if !cell.joined => {
                let reason = message.reason.unwrap_or_default();
                self.cell_failed(id, &format!("join the sandbox: {reason}"));
            }
            ("started", Some(run)) if run.began.is_none() => {
                run.began = Some(Instant::now());
                run.unstarted = None;
                self.link.push(Kind::Started, run.number, &[]);
            }
            ("display", Some(run)) => {
                let bundle = message.data.as_deref().map(RawValue::get).filter(|d| d.starts_with('{'));
                if let Some(bundle) = bundle {
                    self.link.push(Kind::Display, run.number, bundle.as_bytes());
                }
            }
            ("call", Some(_)) => self.on_call(id, message),
            ("done", Some(run)) if run.done.is_none() => {
                run.done = Some(message);
                // A fresh program that is done is over, too. Its process would still keep the kernel busy with its
                // memory for longer than most programs run. A program that says `done` early gains nothing that
                // `os._exit` would not give it.
                if run.session || cell.sandbox.is_some() {
                    self.finish(id, None);
                }
            }
            // A session's threads may send messages between runs. They are ignored.
            (_, None) => {}
            (op, Some(_)) => {
                let text = format!("an unexpected {op:?} on the job's channel");
                self.condemn(id, Cause::Broken(text));
            }
        }
    }

    /// Checks a tool call and hands it to the worker. A call that is refused is answered here.
    fn on_call(&mut self, id: u32, message: Message) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        let Some(run) = &mut cell.active else { return };
        let (Some(number), Some(name)) = (message.call, message.name) else {
            return self.condemn(id, Cause::Broken("a tool call without number or name".into()));
        };
        let declared = run.tools.iter().any(|t| t.name == name);
        let arguments = message.arguments.filter(|a| a.get().starts_with('{'));
        let problem = match (&arguments, declared) {
            (_, false) => Some(format!("no such tool: {name:?}")),
            (None, _) => Some("a tool's arguments are a JSON object".to_string()),
            _ if run.calls.len() >= MAX_CALLS => Some(format!("more than {MAX_CALLS} tool calls at once")),
            _ => None,
        };
        match (problem, arguments) {
            (None, Some(arguments)) => {
                run.last_call += 1;
                run.calls.insert(run.last_call, number);
                let call = ToolCall { call: run.last_call, name, arguments };
                let _ = self.link.push_json(Kind::ToolCall, run.number, &call);
            }
            (problem, _) => {
                let text = serde_json::json!({"op": "result", "call": number, "error": problem.unwrap_or_default()});
                self.tell(id, text.to_string().as_bytes());
            }
        }
    }

    pub(super) fn on_tool_result(&mut self, number: u32, result: &ToolResult) {
        let Some(&id) = self.runs.get(&number) else { return };
        let Some(run) = self.cells.get_mut(&id).and_then(|c| c.active.as_mut()) else { return };
        let Some(call) = run.calls.remove(&result.call) else { return };
        let text = match &result.result {
            Ok(value) => format!(r#"{{"op":"result","call":{call},"ok":{}}}"#, value.get()),
            Err(error) => serde_json::json!({"op": "result", "call": call, "error": error}).to_string(),
        };
        self.tell(id, text.as_bytes());
    }

    fn tell(&mut self, id: u32, json: &[u8]) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        match cell.channel.send(json, Vec::new()) {
            Ok(()) if cell.channel.pending() => {
                let flags = EventFlags::IN | EventFlags::OUT;
                let _ = epoll::modify(&self.epoll, &cell.channel, Token::Channel(id).data(), flags);
            }
            Ok(()) => {}
            // The process is gone; the reaper judges its end.
            Err(e) if e.raw_os_error().is_some() => {}
            Err(e) => self.condemn(id, Cause::Broken(e.to_string())),
        }
    }
}
