//! Tool calls beyond what the job's capabilities allow.

use std::sync::Arc;

use anyhow::Result;
use thermae_schemas::{Capabilities, Job, ToolSpec};

use crate::evidence::Evidence;
use crate::fleet::{Site, load};
use crate::tools::Tools;

pub(super) const SHEET: &str = r#"
tries = "makes calls that its capabilities do not allow: other tools, and names that look like the allowed one; values that some comparisons take for others; a key twice; and two hundred allowed calls at once, of which three are too many"
wins = "a call that reaches the client's tool"
guard = "the worker decides each call by the job's capabilities, counts in one step, and sends on only what it has checked"
control = {}
held = { wrong = 0, calls = 197, statuses = "succeeded", memory = { max = 450 }, served = { min = 1 } }
open = { wrong = { min = 10 }, calls = { min = 201 } }
"#;

const SET: &str = r#"[
    {"pattern": "pay", "max_calls": 197, "constraints": [
        {"path": "order/amount", "op": ">", "value": 0},
        {"path": "order/amount", "op": "<=", "value": 9007199254740992},
        {"path": "order/to", "op": "in", "value": ["rent", "power"]},
        {"path": "order/force", "op": "not exists"}
    ]}
]"#;

/// Notes what got through although it is wrong. `Twice` is a `dict` that the code's JSON writer asks for its items.
const CODE: &str = r#"
import asyncio
class Twice(dict):
    def items(self):
        return [("to", "rent"), ("amount", 1), ("amount", 10**9)]
    __iter__ = lambda self: iter(["to", "amount", "amount"])
wrong = 0
async def attempt(tool, order):
    global wrong
    try:
        await tool(order=order)
        wrong += 1
    except Exception as error:
        pass
good = {"to": "rent", "amount": 1}
for tool in [p_y, pay_all, Pay]:
    await attempt(tool, good)
for change in [{"amount": 10**18}, {"amount": 2**53 + 1}, {"amount": True}, {"amount": "1"}, {"amount": [1]},
               {"amount": None}, {"amount": -0.0}, {"amount": 2**70}, {"to": "Rent"}, {"to": "r\u0435nt"},
               {"to": ["rent"]}, {"force": False}, {"force": None}]:
    await attempt(pay, {**good, **change})
await attempt(pay, [["to", "rent"], ["amount", 1]])
await attempt(pay, Twice(good))
async def allowed():
    try:
        await pay(order=good)
    except ToolError:
        pass
await asyncio.gather(*(allowed() for _ in range(200)))
print(wrong)
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let tools: Arc<Tools> = Arc::default();
    let names = ["pay", "p/y", "pay/all", "Pay"];
    let capabilities = (!site.lifted).then(|| Capabilities::from_json(SET)).transpose()?;
    let job = Job { tools: names.map(ToolSpec::new).into(), capabilities, ..Job::python(CODE) };
    let (mut evidence, outcomes) = load::under(site, vec![job], Some(tools.clone())).await?;
    let statuses: Vec<_> = outcomes.iter().map(|outcome| outcome.status.as_str()).collect();
    evidence.note("statuses", statuses.join(" "));
    evidence
        .note("wrong", outcomes.iter().filter_map(|outcome| outcome.stdout.trim().parse::<u64>().ok()).sum::<u64>());
    evidence.note("calls", tools.calls());
    Ok(evidence)
}
