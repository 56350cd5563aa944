//! The links of the document: what a caller can do next with an answer, and where the values for that are.

use serde_json::{Map, Value, json};

use crate::op::Op;

/// One link: the operation, and where each of its path's parameters is found.
type Link = (Op, &'static [(&'static str, &'static str)]);

/// Id of the run or the batch in the answer.
const ID: &[(&str, &str)] = &[("id", "$response.body#/id")];
/// Id of the run in the answer, and the first call that waits.
const CALL: &[(&str, &str)] = &[("id", "$response.body#/id"), ("call", "$response.body#/calls/0/call")];
/// Id of the run in the answer, and the first call that waits for approval.
const APPROVAL: &[(&str, &str)] = &[("id", "$response.body#/id"), ("call", "$response.body#/approvals/0/call")];
/// First of the batch's runs.
const MEMBER: &[(&str, &str)] = &[("id", "$response.body#/runs/0")];
/// Name of the session that the job asks for.
const SESSION: &[(&str, &str)] = &[("name", "$request.body#/session/id")];
/// Name of the request.
const NAME: &[(&str, &str)] = &[("name", "$request.path.name")];
/// Name and path of the request.
const FILE: &[(&str, &str)] = &[("name", "$request.path.name"), ("path", "$request.path.path")];
/// First of the runs in the answer.
const LISTED: &[(&str, &str)] = &[("id", "$response.body#/runs/0/id")];
/// First of the sessions in the answer.
const LIVE: &[(&str, &str)] = &[("name", "$response.body#/sessions/0/id")];
/// First of the entries in the answer.
const ENTRY: &[(&str, &str)] = &[("name", "$request.path.name"), ("path", "$response.body#/entries/0/path")];

/// The links of an operation's successful answers.
pub(super) fn of(op: Op) -> Option<Value> {
    let links: &[Link] = match op {
        Op::Submit => &[
            (Op::Run, ID),
            (Op::RunInfo, ID),
            (Op::Events, ID),
            (Op::TakeOver, ID),
            (Op::Answer, CALL),
            (Op::Decide, APPROVAL),
            (Op::Cancel, ID),
            (Op::Exec, SESSION),
            (Op::ListFiles, SESSION),
            (Op::Checkpoint, SESSION),
            (Op::CloseSession, SESSION),
        ],
        Op::SubmitBatch => &[(Op::Batch, ID), (Op::BatchResults, ID), (Op::CancelBatch, ID), (Op::Run, MEMBER)],
        Op::Run => &[(Op::Answer, CALL), (Op::Decide, APPROVAL), (Op::Cancel, ID)],
        Op::Runs => &[(Op::Run, LISTED), (Op::RunInfo, LISTED)],
        Op::Sessions => &[(Op::Exec, LIVE), (Op::ListFiles, LIVE), (Op::Checkpoint, LIVE), (Op::CloseSession, LIVE)],
        Op::Checkpoint => &[(Op::Restore, NAME)],
        Op::Restore => &[(Op::Exec, NAME), (Op::ListFiles, NAME), (Op::CloseSession, NAME)],
        Op::ListFiles => &[(Op::ReadFile, ENTRY)],
        Op::CreateUpload => &[(Op::Upload, ID), (Op::SendUpload, ID), (Op::GiveUpUpload, ID)],
        Op::WriteFile => &[(Op::ReadFile, FILE), (Op::RemoveFile, FILE)],
        _ => return None,
    };
    let links = links.iter().map(|(to, values)| {
        let values: Map<String, Value> =
            values.iter().map(|(name, place)| ((*name).to_owned(), json!(place))).collect();
        let name = to.facts().name;
        (name.to_owned(), json!({ "operationId": name, "parameters": values }))
    });
    Some(Value::Object(links.collect()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_link_gives_every_parameter_of_its_path() {
        for op in Op::ALL {
            for (name, link) in of(op).iter().filter_map(Value::as_object).flatten() {
                let to = Op::ALL.into_iter().find(|op| op.facts().name == name).unwrap();
                let parts = to.facts().path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
                let wanted: BTreeSet<_> = parts.map(|part| part.trim_start_matches('*')).collect();
                let given: BTreeSet<_> = link["parameters"].as_object().unwrap().keys().map(String::as_str).collect();
                assert_eq!(given, wanted, "{op:?} to {name}");
            }
        }
    }
}
