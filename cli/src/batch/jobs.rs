//! The file of jobs. Every line is checked before the first job runs, and is read again when its job begins. So a file
//! of any size takes no more memory than its ids.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::{Deserializer, Value};
use thermae_schemas::json::{MOST_IN_A_JOB, measure_unique};
use thermae_schemas::{Job, JobId, JsonText, LimitRequest, ToolSpec, lacks_code, reads};

/// Values from the command line for jobs that don't set their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Defaults {
    pub(crate) max_attempts: Option<u32>,
    pub(crate) limits: LimitRequest,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) sync_tools: bool,
}

/// A job's id and its place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: String,
    /// Number of the line, from 1.
    pub(crate) line: usize,
    offset: u64,
    length: usize,
}

/// A line that is not a job, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// The result of reading the whole file once.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads and checks the whole file.
pub(crate) fn scan(file: &mut File, defaults: &Defaults) -> std::io::Result<Index> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut index = Index::default();
    let mut first_line: HashMap<String, usize> = HashMap::new();
    let (mut offset, mut text) = (0u64, Vec::new());
    for line in 1.. {
        text.clear();
        let length = reader.read_until(b'\n', &mut text)?;
        if length == 0 {
            break;
        }
        if !text.trim_ascii().is_empty() {
            match parse(&text, defaults) {
                Err(message) => index.problems.push(Problem { line, message }),
                Ok((id, _)) => match first_line.get(&id) {
                    Some(first) => {
                        let message = format!("the id {id:?} is already on line {first}");
                        index.problems.push(Problem { line, message });
                    }
                    None => {
                        first_line.insert(id.clone(), line);
                        index.entries.push(Entry { id, line, offset, length });
                    }
                },
            }
        }
        offset += length as u64;
    }
    Ok(index)
}

/// Reads one job again. It gets a new id for the fleet.
pub(crate) fn read(file: &mut File, entry: &Entry, defaults: &Defaults) -> Result<Job, String> {
    let mut text = vec![0; entry.length];
    file.seek(SeekFrom::Start(entry.offset))
        .and_then(|_| file.read_exact(&mut text))
        .map_err(|error| error.to_string())?;
    match parse(&text, defaults)? {
        (id, job) if id == entry.id => Ok(job),
        (id, _) => Err(format!("the file changed during the batch: the id {:?} became {id:?}", entry.id)),
    }
}

/// A line's own id, and its job. The job gets a new id for the fleet, because a rerun is a new job.
fn parse(text: &[u8], defaults: &Defaults) -> Result<(String, Job), String> {
    let measured = measure_unique(text, MOST_IN_A_JOB).map_err(|error| match error.is_data() {
        true => error.to_string(),
        false => format!("not JSON: {}", place(&error)),
    });
    if !measured?.is_object {
        return Err("not a JSON object".to_owned());
    }
    // A tree would round numbers and sort keys.
    let mut fields: BTreeMap<String, JsonText> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let id = match fields.get("id").map(JsonText::read::<String>) {
        Some(Ok(id)) if !id.is_empty() => id,
        Some(_) => return Err("the field `id` must be a string of at least one character".to_owned()),
        None => return Err("the field `id` is missing".to_owned()),
    };
    fields.insert("id".to_owned(), Value::String(JobId::random().to_string()).into());
    let says_attempts = fields.get("max_attempts").is_some_and(|attempts| attempts.raw().get() != "null");
    let line = serde_json::to_string(&fields).map_err(|error| error.to_string())?;
    let mut job: Job = serde_path_to_error::deserialize(&mut Deserializer::from_str(&line)).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner().to_string();
        // Its line and column are those of a text that nobody has written.
        let inner = inner.rsplit_once(" at line ").map_or(inner.as_str(), |(inner, _)| inner).to_owned();
        if path == "." || inner.contains(&format!("`{path}`")) { inner } else { format!("`{path}`: {inner}") }
    })?;
    if lacks_code(&job, text) {
        return Err("missing field `code`".to_owned());
    }
    if !reads(job.protocol) {
        return Err(format!("this release does not support protocol {}", job.protocol));
    }
    if let (Some(n), false) = (defaults.max_attempts, says_attempts) {
        job.max_attempts = n;
    }
    if job.tools.is_empty() && job.language.calls_tools() {
        job.tools.clone_from(&defaults.tools);
    } else if let Some(tool) = job.tools.iter().find(|tool| !defaults.tools.iter().any(|known| known.name == tool.name))
    {
        return Err(format!("the tool {:?} has no command: give it one with --tool {}=COMMAND", tool.name, tool.name));
    }
    job.sync_tools |= defaults.sync_tools;
    let (asked, default) = (&mut job.limits, &defaults.limits);
    asked.wall_ms = asked.wall_ms.or(default.wall_ms);
    asked.cpu_ms = asked.cpu_ms.or(default.cpu_ms);
    asked.memory_bytes = asked.memory_bytes.or(default.memory_bytes);
    asked.pids = asked.pids.or(default.pids);
    asked.output_bytes = asked.output_bytes.or(default.output_bytes);
    asked.tool_ms = asked.tool_ms.or(default.tool_ms);
    // The file of results has no place for events.
    job.stream.clear();
    Ok((id, job))
}

/// An error's text with its column only: serde counts lines within the one line.
fn place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    format!("{} at column {}", &text[..end], error.column())
}

/// Opens a file of jobs. It must be a regular file, because it is read more than once.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    use std::io::{Error, ErrorKind};
    // Check the kind first: opening a pipe waits for a writer.
    let kind = std::fs::metadata(path)?;
    if kind.is_dir() {
        return Err(Error::from(ErrorKind::IsADirectory));
    }
    if !kind.is_file() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file, and a batch reads its jobs more than once",
        ));
    }
    File::open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use thermae_schemas::InputValue;

    use super::*;

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn problems(text: &str) -> Vec<(usize, String)> {
        let index = scan(&mut file(text), &Defaults::default()).unwrap();
        index.problems.into_iter().map(|problem| (problem.line, problem.message)).collect()
    }

    #[test]
    fn every_line_is_a_job_of_its_own() {
        let text = "{\"id\": \"a b\", \"code\": \"print(1)\"}\n\n{\"id\": \"HumanEval/1\", \"code\": \"é\", \"max_attempts\": 2}";
        let mut file = file(text);
        let defaults = Defaults { max_attempts: Some(5), ..Defaults::default() };
        let index = scan(&mut file, &defaults).unwrap();
        assert_eq!(index.problems, []);
        let ids: Vec<_> = index.entries.iter().map(|entry| (entry.id.as_str(), entry.line)).collect();
        assert_eq!(ids, [("a b", 1), ("HumanEval/1", 3)]);
        let second = read(&mut file, &index.entries[1], &defaults).unwrap();
        let first = read(&mut file, &index.entries[0], &defaults).unwrap();
        assert_eq!((first.code.as_str(), first.max_attempts), ("print(1)", 5));
        assert_eq!((second.code.as_str(), second.max_attempts), ("é", 2));
        assert_ne!(first.id, read(&mut file, &index.entries[0], &defaults).unwrap().id, "a rerun is a new job");
    }

    #[test]
    fn only_programs_that_can_call_tools_get_those_of_the_batch() {
        let tool: ToolSpec = serde_json::from_str(r#"{"name": "t"}"#).unwrap();
        let defaults = Defaults { tools: vec![tool], ..Defaults::default() };
        let of = |text: &str| parse(text.as_bytes(), &defaults).unwrap().1.tools.len();
        assert_eq!(of(r#"{"id": "a", "code": ""}"#), 1);
        assert_eq!(of(r#"{"id": "a", "language": "bash", "argv": ["ls"]}"#), 0);
    }

    #[test]
    fn capabilities_are_read_as_they_were_written() {
        let line = |set: &str| format!(r#"{{"id": "a", "code": "", "capabilities": {set}}}"#);
        let read = |set: &str| parse(line(set).as_bytes(), &Defaults::default()).map(|(_, job)| job.capabilities);
        assert!(read("[]").unwrap().is_some());
        for (set, why) in [
            (r#"[{"pattern": "t", "max_calls": 1, "max_calls": 9}]"#, "the key \"max_calls\" stands twice"),
            (r#"[], "capabilities": [{"pattern": "**"}]"#, "at /capabilities: the key"),
            ("null", "capabilities: must be a list"),
            (r#"[{}]"#, "capabilities[0]: lacks \"pattern\""),
        ] {
            let error = read(set).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn inputs_are_read_as_they_were_written() {
        let list = thermae_testkit::json::list(50);
        let line = format!(r#"{{"id": "a", "code": "", "inputs": {{"x": {{"value": {list}}}}}}}"#);
        let (_, job) = parse(line.as_bytes(), &Defaults::default()).unwrap();
        assert_eq!(job.inputs["x"], InputValue::Value(JsonText::new(list).unwrap()));
        for (value, why) in [("[1e400]", "value/0: number out of range"), (r#"{"a": 1, "a": 2}"#, "value/a: the key")] {
            let line = format!(r#"{{"id": "a", "code": "", "inputs": {{"x": {{"value": {value}}}}}}}"#);
            let error = parse(line.as_bytes(), &Defaults::default()).unwrap_err();
            assert!(error.contains(&format!("at /inputs/x/{why}")), "{error}");
        }
    }

    #[test]
    fn null_leaves_a_field_out_and_the_batch_gives_it() {
        let defaults = Defaults { max_attempts: Some(5), ..Defaults::default() };
        let (_, job) = parse(br#"{"id": "a", "code": "", "max_attempts": null, "pool": null}"#, &defaults).unwrap();
        assert_eq!((job.max_attempts, job.pool.as_str()), (5, "default"));
        let (_, job) = parse(br#"{"id": "a", "code": "", "max_attempts": 2.0}"#, &defaults).unwrap();
        assert_eq!(job.max_attempts, 2);
    }

    #[test]
    fn an_object_is_never_a_list_of_its_fields() {
        for (path, line) in thermae_testkit::json::LISTS_FOR_OBJECTS {
            let [(1, why)] = &problems(line)[..] else { panic!("{line}") };
            let field = path.split('/').nth(1).unwrap_or("not a JSON object");
            assert!(why.contains(field), "{line}: {why}");
        }
    }

    #[test]
    fn a_token_stands_once() {
        let read = |token: &str| {
            let line = format!(r#"{{"id": "a", "code": "", "token": {token}}}"#);
            parse(line.as_bytes(), &Defaults::default()).map(|(_, job)| job.token)
        };
        assert_eq!(read(r#""one""#).unwrap().unwrap().as_str(), "one");
        for (token, why) in [(r#""one", "token": "two""#, "at /token: the key"), ("null", "`token`: invalid type")] {
            let error = read(token).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn each_bad_line_is_named() {
        let text = "{\"id\": \"a\", \"code\": \"\"}\n{oops\n[]\n{\"code\": \"\"}\n{\"id\": 3, \"code\": \"\"}\n{\"id\": \"b\", \"codee\": \"\"}\n\
            {\"id\": \"a\", \"code\": \"\"}\n{\"id\": \"c\", \"code\": \"\", \"limits\": {\"wall\": 1}}\n{\"id\": \"d\", \"code\": \"\", \"protocol\": 9}\n\
            {\"id\": \"e\", \"code\": \"\", \"tools\": [{\"name\": \"t\"}]}\n{\"id\": \"f\", \"code\": \"\", \"limits\": {\"wall_ms\": \"1s\"}}\n\
            {\"id\": \"g\", \"code\": \"\", \"files\": [{\"path\": \"x\", \"base64\": \"AP8\"}]}\n";
        let found = problems(text);
        let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        for ((_, message), part) in found.iter().zip([
            "not JSON: key must be a string at column 2",
            "not a JSON object",
            "`id` is missing",
            "`id` must be",
            "unknown field `codee`",
            "already on line 1",
            "unknown field `wall`",
            "protocol 9",
            "the tool \"t\" has no command",
            "`limits.wall_ms`: invalid type",
            "`files[0].base64`: is not base64",
        ]) {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}
