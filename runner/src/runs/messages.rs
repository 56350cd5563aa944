//! Handles the messages that a job's process sends on its channel, none of which is trusted, and sends it tool results.

use std::time::Instant;

use rustix::event::epoll::EventFlags;
use serde_json::value::RawValue;

use super::Runs;
use super::active::{Cause, MAX_CALLS, MAX_RECEIVED};
use super::waits::Halt;
use crate::channel::{Got, Message};
use crate::frames::{ANSWER_WINDOW, Frame, Kind, ToolCall, ToolResult};
use crate::io::{Io, Token};
use crate::sandboxes::{Sandboxes, Stage};

impl Runs {
    /// Takes what the process of a sandbox has sent, and goes on sending what waits for it.
    pub(crate) fn on_channel(&mut self, id: u32, flags: EventFlags, sandboxes: &mut Sandboxes, io: &mut Io) {
        if self.guests.contains(id) {
            return self.guests.on_channel(id, flags, &mut self.occupants, sandboxes, io);
        }
        if flags.contains(EventFlags::OUT) {
            self.go_on_telling(id, sandboxes, io);
        }
        let Some(sandbox) = sandboxes.get_mut(id) else { return };
        let got = sandbox.channel.fill(&mut io.chunk);
        let closed = !matches!(got, Ok(Got::Empty));
        while let Some(sandbox) = sandboxes.get_mut(id) {
            if sandbox.channel.received > MAX_RECEIVED
                && let Some(run) = self.run_mut(id)
            {
                let text = format!("more than {MAX_RECEIVED} bytes on the job's channel in run {}", run.number);
                return self.kill_run(id, Cause::Broken(text), sandboxes);
            }
            match sandbox.channel.next() {
                Ok(Some(message)) => self.on_message(id, message, sandboxes, io),
                Ok(None) => break,
                Err(text) => return self.broken_channel(id, text, sandboxes, io),
            }
        }
        if closed && let Some(sandbox) = sandboxes.get(id) {
            io.unwatch(&sandbox.channel);
            match sandbox.stage {
                // A fresh program may run on without its channel. The end of its process says how it went.
                Stage::Running if self.run_mut(id).is_none_or(|run| !run.session) => {}
                Stage::Ending => {}
                // A session without a channel can't be given another run.
                _ => sandbox.kill(),
            }
        }
    }

    fn broken_channel(&mut self, id: u32, text: String, sandboxes: &mut Sandboxes, io: &mut Io) {
        if self.run_mut(id).is_some() {
            return self.kill_run(id, Cause::Broken(text), sandboxes);
        }
        match sandboxes.get(id) {
            Some(sandbox) if matches!(sandbox.stage, Stage::Idle | Stage::Ending) => {
                // The bad message stays where it is, and would wake the loop again and again.
                io.unwatch(&sandbox.channel);
                sandbox.kill();
            }
            Some(_) => sandboxes.failed(id, &text, io),
            None => {}
        }
    }

    fn on_message(&mut self, id: u32, message: Message, sandboxes: &mut Sandboxes, io: &mut Io) {
        let Some(sandbox) = sandboxes.get(id) else { return };
        let Some(run) = self.run_mut(id) else {
            // A session's threads may send messages between runs. They are ignored.
            match message.op.as_str() {
                "ready" if !sandbox.joined => sandboxes.joined(id),
                "failed" if !sandbox.joined => {
                    let reason = message.reason.unwrap_or_default();
                    sandboxes.failed(id, &format!("join the sandbox: {reason}"), io);
                }
                _ => {}
            }
            return;
        };
        if !run.tools.is_empty() {
            let now = Instant::now();
            // A process for which answers wait here has not got them, whatever it says.
            let outstanding = !run.calls.is_empty() && !sandbox.channel.pending();
            run.waits.heard(&message, outstanding, now);
            if run.waits.halt == Halt::Asked {
                // It has gone on before it stopped.
                run.resume(now, sandbox);
            }
        }
        match message.op.as_str() {
            "waits" if !run.tools.is_empty() => {}
            "started" if run.began.is_none() => {
                run.began = Some(Instant::now());
                run.unstarted = None;
                io.link.push(Kind::Started, run.number, &[]);
                if run.cancelled {
                    // It was cancelled before its code could heed an interrupt.
                    sandbox.interrupt(sandboxes.zygotes.interrupts_group(sandbox.flavor));
                }
            }
            "display" => {
                let bundle = message.data.as_deref().map(RawValue::get).filter(|d| d.starts_with('{'));
                if let Some(bundle) = bundle {
                    io.link.push(Kind::Display, run.number, bundle.as_bytes());
                }
            }
            "call" => self.on_call(id, message, sandboxes, io),
            "done" if run.done.is_none() => {
                run.done = Some(message);
                // A fresh program that is done is over, too. Its process would still keep the kernel busy with its
                // memory for longer than most programs run. A program that says `done` early gains nothing that
                // `os._exit` would not give it.
                if run.session || sandbox.handles.is_some() {
                    self.finish(id, None, sandboxes, io);
                }
            }
            op => {
                let text = format!("an unexpected {op:?} on the job's channel");
                self.kill_run(id, Cause::Broken(text), sandboxes);
            }
        }
    }

    /// Checks a tool call and hands it to the worker. A call that is refused is answered here.
    fn on_call(&mut self, id: u32, message: Message, sandboxes: &mut Sandboxes, io: &mut Io) {
        let Some(run) = self.run_mut(id) else { return };
        let (Some(number), Some(name)) = (message.call, message.name) else {
            return self.kill_run(id, Cause::Broken("a tool call without number or name".into()), sandboxes);
        };
        let declared = run.tools.get(&name).copied();
        let arguments = message.arguments.filter(|a| a.get().starts_with('{'));
        let problem = match (&arguments, declared) {
            (_, None) => Some(format!("no such tool: {name:?}")),
            (None, _) => Some("a tool's arguments are a JSON object".to_string()),
            _ if run.calls.len() >= MAX_CALLS => Some(format!("more than {MAX_CALLS} tool calls at once")),
            _ => None,
        };
        match (problem, arguments.zip(declared)) {
            (None, Some((arguments, raw))) => {
                run.last_call += 1;
                run.calls.insert(run.last_call, (number, raw));
                let call = ToolCall { call: run.last_call, name, arguments };
                let _ = io.link.push_json(Kind::ToolCall, run.number, &call);
            }
            (problem, _) => {
                run.waits.answered(Instant::now());
                let text = serde_json::json!({"op": "result", "call": number, "error": problem.unwrap_or_default()});
                self.tell(id, text.to_string().as_bytes(), sandboxes, io);
            }
        }
    }

    /// Hands the answer to a tool call to the code.
    ///
    /// # Errors
    /// The frame can't be read.
    pub(crate) fn on_tool_result(
        &mut self,
        number: u32,
        frame: &Frame,
        sandboxes: &mut Sandboxes,
        io: &mut Io,
    ) -> serde_json::Result<()> {
        let result: ToolResult = frame.parse()?;
        let Some(&id) = self.going.get(&number) else { return Ok(()) };
        let (Some(sandbox), Some(run)) = (sandboxes.get(id), self.run_mut(id)) else { return Ok(()) };
        run.untaken += frame.body.len() as u64;
        let Some((call, raw)) = run.calls.remove(&result.call) else { return Ok(()) };
        let now = Instant::now();
        run.waits.answered(now);
        run.resume(now, sandbox);
        let text = match &result.result {
            Ok(value) if raw && !value.get().starts_with('"') => {
                serde_json::json!({"op": "result", "call": call, "ok": value.get()}).to_string()
            }
            Ok(value) => format!(r#"{{"op":"result","call":{call},"ok":{}}}"#, value.get()),
            Err(failure) => {
                let plain = failure.kind.is_none() && failure.data.is_none();
                let error =
                    if plain { serde_json::to_string(&failure.message) } else { serde_json::to_string(failure) };
                format!(r#"{{"op":"result","call":{call},"error":{}}}"#, error.unwrap_or_default())
            }
        };
        self.tell(id, text.as_bytes(), sandboxes, io);
        self.allow_answers(id, sandboxes, io);
        Ok(())
    }

    /// Goes on sending what waits for the process.
    fn go_on_telling(&mut self, id: u32, sandboxes: &mut Sandboxes, io: &mut Io) {
        let Some(sandbox) = sandboxes.get_mut(id) else { return };
        let flushed = sandbox.channel.flush();
        if flushed.is_err() || !sandbox.channel.pending() {
            io.rewatch(&sandbox.channel, Token::Channel(id), EventFlags::IN);
        }
        self.allow_answers(id, sandboxes, io);
    }

    /// Lets the worker send more answers once the code has taken those that came.
    fn allow_answers(&mut self, id: u32, sandboxes: &Sandboxes, io: &mut Io) {
        let taken = sandboxes.get(id).is_some_and(|sandbox| !sandbox.channel.pending());
        if let Some(run) = self.run_mut(id)
            && taken
            // Small answers need no credit: less than this may be untold, and leaves the worker room for more.
            && run.untaken >= ANSWER_WINDOW / 2
        {
            let _ = io.link.push_json(Kind::Credit, run.number, &std::mem::take(&mut run.untaken));
        }
    }

    pub(super) fn tell(&mut self, id: u32, json: &[u8], sandboxes: &mut Sandboxes, io: &mut Io) {
        let Some(sandbox) = sandboxes.get_mut(id) else { return };
        match sandbox.channel.send(json, Vec::new()) {
            Ok(()) if sandbox.channel.pending() => {
                io.rewatch(&sandbox.channel, Token::Channel(id), EventFlags::IN | EventFlags::OUT);
            }
            Ok(()) => {}
            // The process is gone; the reaper judges its end.
            Err(e) if e.raw_os_error().is_some() => {}
            Err(e) => self.kill_run(id, Cause::Broken(e.to_string()), sandboxes),
        }
    }
}
